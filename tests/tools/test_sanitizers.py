"""What `make sanitize` and `make tsan` report at the end: tools/sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools/sanitizers"

pytestmark = [
    pytest.mark.skipif(not TOOLS.is_dir(), reason="needs the source tree"),
    pytest.mark.skipif("FASTDNS_SANITIZED" in os.environ, reason="starts a process with sanitizers of its own"),
]

LIBRARY = """
#include <stdlib.h>
void *kept;
void keep(void) { kept = malloc(1000); }
void lose(void) { kept = malloc(2000); kept = NULL; }
"""
#: As a server does, this ends by os._exit, and with objects in its frames.
PROGRAM = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
def run():
    own = [bytearray(3000) for _ in range(100)]
    for name in sys.argv[2:]:
        getattr(library, name)()
    os._exit(3)
run()
"""


def judge(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOLS / "reports.py", folder], text=True, stdout=subprocess.PIPE, check=False)


def run(tmp_path: Path, *functions: str) -> subprocess.CompletedProcess[str]:
    """Calls functions of a library in a process that looks for leaks: what is reported of it."""
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    source, library, reports = tmp_path / "build/cython/module.c", tmp_path / "module.so", tmp_path / "reports"
    source.parent.mkdir(parents=True)
    source.write_text(LIBRARY)
    reports.mkdir()
    subprocess.run(["gcc", "-g", "-O0", "-fno-omit-frame-pointer", "-shared", "-fPIC", source, "-o", library], check=True)
    environment = {
        "PATH": os.environ["PATH"],
        "LD_PRELOAD": asan,
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(TOOLS),
        "ASAN_OPTIONS": "detect_leaks=1:leak_check_at_exit=0",
        "FASTDNS_REPORTS": str(reports),
        "PYTEST_CURRENT_TEST": "tests/test_of.py::the_library",
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM, library, *functions], env=environment, check=False)
    assert done.returncode == 3
    return judge(reports)


def test_memory_that_a_module_loses(tmp_path: Path) -> None:
    done = run(tmp_path, "keep", "lose", "lose", "keep")
    assert "Direct leak of 4000 byte(s) in 2 object(s)" in done.stdout
    assert "build/cython/module.c:5" in done.stdout
    assert "in 1 processes, first tests/test_of.py::the_library: " in done.stdout
    assert done.returncode == 66


def test_memory_that_a_process_still_has_at_its_end(tmp_path: Path) -> None:
    done = run(tmp_path, "keep")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("objects", "status"), [(2, 0), (1000, 66)])
def test_python_objects_that_a_module_makes(tmp_path: Path, objects: int, status: int) -> None:
    frames = "    #1 0x1 in _PyBytes_FromSize Objects/bytesobject.c:103\n    #2 0x2 in __pyx_take build/cython/a.c:5\n"
    (tmp_path / "leak.7").write_text(f"Direct leak of {159 * objects} byte(s) in {objects} object(s) allocated from:\n{frames}\nSUMMARY: AddressSanitizer\n")
    assert judge(tmp_path).returncode == status


def test_reports_of_all_processes(tmp_path: Path) -> None:
    (tmp_path / "memory.7").write_text("==7==ERROR: AddressSanitizer: heap-use-after-free\n    #0 0x1 in f build/cython/a.c:1\n")
    (tmp_path / "memory.8").write_text("==8==ERROR: AddressSanitizer: heap-use-after-free\n    #0 0x2 in f build/cython/a.c:1\n")
    (tmp_path / "8.test").write_text("tests/test_of.py::second: fastdns\n")
    done = judge(tmp_path)
    assert done.stdout.count("heap-use-after-free") == 1
    assert "in 2 processes, first process 7" in done.stdout
    assert done.returncode == 66
