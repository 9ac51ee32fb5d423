"""A run of tests that leaves a process behind fails, and says which."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.processes import RUN, running
from tests.waiting import LIMIT

ROOT = Path(__file__).resolve().parent.parent

LEAVES = """
import os
import subprocess
import sys

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

def test_leaves_a_child():
    subprocess.Popen(SLEEP)

def test_leaves_a_session_of_its_own():
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen({SLEEP}, start_new_session=True)"], check=True)

def test_ends_what_it_starts():
    process = subprocess.Popen(SLEEP)
    process.kill()
    process.wait()
"""


def test_a_process_that_is_left_fails_the_run(tmp_path: Path) -> None:
    path = tmp_path / "test_leaves.py"
    path.write_text(LEAVES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.processes", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, RUN: "none"})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 passed, 1 error" in done.stdout
    left = dict(re.findall(r"^E +(\d+): .*\(started by \S+::(\w+) \(call\)\)$", done.stdout, re.M))
    assert sorted(left.values()) == ["test_leaves_a_child", "test_leaves_a_session_of_its_own"]
    ended = [path for path in (Path(f"/proc/{process}/cmdline") for process in left) if not path.exists() or not path.read_bytes()]
    assert len(ended) == 2, "they were ended, whether their parents have seen it or not"


def test_a_process_is_named_as_long_as_it_runs() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"a")
        assert process.stdout.read(1) == b"a", "it runs: before its first instruction the kernel may show no environment yet"
        assert re.fullmatch(r"cat \(started by .*::test_a_process_is_named_as_long_as_it_runs \(call\)\)", running(os.environ[RUN])[process.pid])
    assert process.pid not in running(os.environ[RUN])
