"""DNS over QUIC and over HTTP/3 by quic-go: the program in `quicgo/`, built when it is first used."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import dns.rcode

from fastdns.bench.clients.client import TAIL, Client, Load, record
from fastdns.bench.load import LoadError
from fastdns.bench.result import Result

SOURCES = Path(__file__).with_name("quicgo")
PROGRAM = "quicgo"


class QuicGo(Client):
    name = "quic-go"
    source = "built with Go: https://go.dev/dl or Debian's package golang-go"
    transports: ClassVar[frozenset[str]] = frozenset(["doq", "doh3"])

    def missing(self) -> str:
        return "" if go_command() else f"{self.name} needs Go ({self.source})"

    def prepare(self) -> None:
        """Builds the program, once for each version of its sources."""
        _ = self.program

    @cached_property
    def program(self) -> str:
        """Its path. Raises LoadError when it cannot be built."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-bench"
        sources = sorted(SOURCES.iterdir())
        digest = hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sources)).hexdigest()[:16]
        program = cache / f"{PROGRAM}-{digest}"
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                build(program)
        return str(program)

    def command(self, load: Load) -> list[str]:
        plan, target = load.plan, load.target
        made = [self.program, "-transport", target.transport, "-address", load.authority, "-path", target.path, "-query", load.query.hex()]
        made += ["-connections", str(plan.clients), "-in-flight", str(max(plan.window, plan.clients))]
        made += ["-seconds", f"{plan.seconds:g}", "-timeout", f"{plan.timeout:g}s"]
        return [*made, "-new-connection"] if plan.new_connection else made

    def read(self, load: Load, output: str, result: Result) -> None:
        report: dict[str, Any] = json.loads(output)
        errors: dict[str, int] = report["errors"]
        statuses: dict[str, int] = report["statuses"]
        result.rcodes = {dns.rcode.to_text(dns.rcode.Rcode.make(int(code))): count for code, count in report["rcodes"].items()}
        wrong = {
            "malformed": report["wrong"],
            "rcode": sum(count for name, count in result.rcodes.items() if name != "NOERROR"),
            "status": sum(statuses.values()),
        }
        result.wrong = {what: count for what, count in wrong.items() if count}
        result.statuses = statuses
        result.answered = report["answers"]
        result.lost = sum(errors.values())
        result.resets = result.lost - errors.get("timeout", 0)
        result.sent = result.answered + result.lost
        result.octets = report["octets"]
        result.seconds = report["seconds"]
        record(result, ((nanoseconds * 1e-9, times) for nanoseconds, times in report["latencies"]))


def go_command() -> str | None:
    """The go command, also where Go's own packages put it."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


def build(program: Path) -> None:
    go = go_command()
    if go is None:
        raise LoadError("quic-go's client needs Go")
    print("building the client for QUIC with Go", file=sys.stderr)
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false"}
    made = program.with_suffix(".new")
    done = subprocess.run([go, "build", "-o", str(made), "."], cwd=SOURCES, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadError(f"the client for QUIC cannot be built; Go needs its module proxy: {done.stderr[-TAIL:].strip()}")
    made.rename(program)
