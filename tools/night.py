"""What takes too long for each change: ``make night`` runs it in parts, each in less than two hours, and writes one page of results.

``tools/night.py [PART...]`` runs the parts named, else all that have not passed yet for the commit that is checked out: a run that was
interrupted is resumed. Logs and results lie in ``build/night/COMMIT/``, the page in ``build/night/results.md``. Exit status 1 where a part has
failed, 2 for a part that is unknown.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2 * 3600
PYTEST = ".venv/bin/python -m pytest -q -p no:cacheprovider"
SLOW = f"{PYTEST} -m slow"


class Part(NamedTuple):
    name: str
    #: For sh, in the project's folder.
    command: str
    what: str
    #: Seconds, after which it has failed.
    limit: int = LIMIT


class Outcome(NamedTuple):
    #: ``passed``, ``failed``, ``too long``.
    status: str
    seconds: int
    #: The last line of its output.
    summary: str


PARTS = [
    Part("grammar", f"{SLOW} tests/robustness/test_grammar.py", "every directive with every kind of argument"),
    Part(
        "apiserver",
        f"{SLOW} tests/apiserver tests/plugins/kubernetes tests/plugins/k8s_external tests/plugins/k8s_gateway",
        "*kubernetes* with a real API server, large clusters",
    ),
    Part("deploy", f"{SLOW} tests/deploy", "charts and manifests by Helm and Kustomize"),
    Part("packaging", f"{SLOW} tests/test_packaging.py tests/api", "the wheel in environments of its own, plugins as packages"),
    Part("slow", f"{SLOW} --ignore-glob='*/deploy/*' --ignore-glob='*/apiserver/*' --ignore-glob='*/plugins/k8s_*' --ignore=tests/plugins/kubernetes "
         "--ignore=tests/robustness/test_grammar.py --ignore=tests/test_packaging.py --ignore=tests/api --ignore=tests/robustness/test_soak.py tests",
         "all other slow tests"),
    Part("reloads", f"FASTDNS_RELOADS=100 FASTDNS_RATE=20000 {PYTEST} tests/robustness/test_reload.py", "100 reloads at 20,000 queries a second"),
    Part("soak", "make -s soak MINUTES=90", "load, changes, reloads and outages at once"),
    Part("chaos", "make -s chaos MINUTES=110", "faults of every kind, one after the other"),
    Part("fuzz-1", "make -s fuzz-targets FUZZ_SECONDS=900 FUZZ='packet name edns tsig reply tcp http'", "libFuzzer, the first half of the targets"),
    Part("fuzz-2", "make -s fuzz-targets FUZZ_SECONDS=590 "
         "FUZZ='http2 http-response proxy zone-file svcb transfer stored-zone capture corefile "
         "watch-protobuf watch-json'",
         "the other half"),
    Part("fuzz-objects", f"FASTDNS_OBJECTS_SECONDS=1800 FASTDNS_OBJECTS_SEED=$(date +%j) {PYTEST} tests/plugins/kubernetes/test_random_objects.py",
         "an hour of random objects in watches, in JSON and protobuf, beside a victim's names"),
    Part("fuzz-packets", "make -s fuzz-packets", "a million mutated packets to a server with sanitizers"),
    Part("fuzz-results", f"FASTDNS_FUZZ_RESULTS=500000 {PYTEST} -o timeout=7000 tests/fuzz/test_results.py", "a million results of Python plugins"),
    Part("differential", "make -s differential ZONES=2000", "answers beside Knot, NSD, BIND and Unbound"),
    Part("aarch64", "make -s aarch64", "compiled for aarch64, tests in QEMU"),
    Part("sanitize-units", "make -s sanitize TESTS='tests/wire tests/message tests/index tests/zonefile tests/walk tests/system tests/engine tests/executor "
         "tests/expression tests/corefile tests/telemetry tests/protocol tests/proxy tests/tls tests/httpd tests/native'",
         "AddressSanitizer and UndefinedBehaviorSanitizer: the packages of fastdns/"),
    Part("sanitize-server", "make -s sanitize TESTS='tests/server tests/robustness tests/control tests/node'", "the same: servers, transports, attacks"),
    Part("sanitize-plugins", "make -s sanitize TESTS=tests/plugins", "the same: plugins"),
    Part("threads", "make -s tsan", "ThreadSanitizer: what threads share"),
    Part("debug", "make -s debug", "all tests with bounds checks and counters of live memory"),
    Part("cluster", "make -s cluster", "Kubernetes' own tests in a cluster of three nodes, fastdns beside CoreDNS"),
    Part("corpus", '.venv/bin/python -m tests.conformance --server "$PWD/.venv/bin/fastdns -conf {corefile}"', "the answers that were recorded of CoreDNS"),
]  # fmt: skip


def main(names: Sequence[str]) -> int:
    known = {part.name: part for part in PARTS}
    if unknown := [name for name in names if name not in known]:
        print(f"night: no part {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    folder = ROOT / "build/night" / revision()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [known[name] for name in names] or [part for part in PARTS if outcome(folder, part.name) is None or outcome(folder, part.name).status != "passed"]
    failed = False
    for part in chosen:
        print(f"night: {part.name}: {part.what}", flush=True)
        result = run(part, folder)
        (folder / f"{part.name}.json").write_text(json.dumps(result._asdict()))
        (ROOT / "build/night/results.md").write_text(page(PARTS, folder))
        print(f"night: {part.name}: {result.status} after {result.seconds} s: {result.summary}", flush=True)
        failed |= result.status != "passed"
    return int(failed)


def revision() -> str:
    """Of what is checked out; with changes that are not committed it is another one."""
    return subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True).stdout.strip()


def run(part: Part, folder: Path) -> Outcome:
    """Runs it, output to its log. What it leaves running when it is stopped ends with it."""
    path = folder / f"{part.name}.log"
    began = time.monotonic()
    with path.open("w") as log:
        process = subprocess.Popen(["sh", "-c", part.command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = "passed" if process.wait(part.limit) == 0 else "failed"
        except subprocess.TimeoutExpired:
            status = "too long"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return Outcome(status, round(time.monotonic() - began), lines[-1].strip("= ") if lines else "")


def outcome(folder: Path, name: str) -> Outcome | None:
    """Of its last run for this commit."""
    path = folder / f"{name}.json"
    return Outcome(**json.loads(path.read_text())) if path.is_file() else None


def page(parts: Sequence[Part], folder: Path) -> str:
    """Markdown: what was run where, and a row for each part."""
    rows = [
        f"# {folder.name}",
        "",
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} processors, Linux {platform.release()}, Python {platform.python_version()}",
        "",
        "| part | result | s | last line | what |",
        "|---|---|---|---|---|",
    ]
    for part in parts:
        found = outcome(folder, part.name) or Outcome("not run", 0, "")
        rows.append(f"| {part.name} | {found.status} | {found.seconds} | {found.summary.replace('|', '/')} | {part.what} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
