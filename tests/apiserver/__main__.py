"""Starts a Kubernetes API server for tests, with an etcd of its own.

Both programs are built once and listen on free loopback ports. When /readyz answers, one JSON line says where everything is.
Both end on TERM or INT and when standard input closes. Arguments that are not listed here go to the server, for example
--deny-anonymous or --feature-gates=WatchList=false.

Lines on standard input: "stop" stops the server (etcd stays), "start" starts it again on the same ports, "compact" makes etcd
forget all older revisions, "backup" keeps a copy of etcd's data, and "restore" takes it back. Each is answered by one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.apiserver.build import build
from tests.apiserver.cluster import Cluster, Failed
from tests.golang import Unbuildable

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    options, flags = parser().parse_known_args(arguments)
    try:
        programs = build()
        if options.build_only:
            print_line({"programs": str(programs)})
            return 0
        return serve(options, flags, programs)
    except (Unbuildable, Failed) as error:
        print(f"apiserver: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.apiserver", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--port", type=int, default=0, help="HTTPS port (default: a free one)")
    made.add_argument("--http-port", type=int, default=0, help="plain HTTP port (default: a free one)")
    made.add_argument("--data-dir", type=Path, help="folder for all data, kept afterwards (default: a temporary one)")
    made.add_argument("--etcd", default="built", help="'built' (from the Go module, the default), 'system' or a path")
    made.add_argument("--no-stdin", action="store_true", help="read no commands; run until TERM")
    made.add_argument("--build-only", action="store_true", help="print the folder of the programs and end")
    return made


def serve(options: argparse.Namespace, flags: Sequence[str], programs: Path) -> int:
    """Raises Failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    folder = (options.data_dir or Path(tempfile.mkdtemp(prefix="apiserver-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(options, flags, programs, folder)
    try:
        cluster.start()
        print_line(cluster.describe())
        read_commands(cluster, None if options.no_stdin else sys.stdin.fileno())
    finally:
        cluster.stop()
        if not options.data_dir:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def read_commands(cluster: Cluster, source: int | None) -> None:
    """Until the descriptor ``source`` ends. Raises Failed when etcd ends before."""
    pending = b""
    while cluster.running():
        ready, _, _ = select.select([] if source is None else [source], [], [], 1)
        if not ready:
            continue
        data = os.read(ready[0], 4096)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in filter(None, map(bytes.strip, lines)):
            print_line(obey(cluster, line.decode(errors="replace")))
    raise Failed(f"etcd ended by itself; see {cluster.etcd_log}")


def obey(cluster: Cluster, command: str) -> dict[str, Any]:
    if command == "stop":
        cluster.stop_server()
        return {"stopped": True}
    if command == "start":
        cluster.start_server()
        return {"started": True, "pid": cluster.describe()["pid"]}
    if command == "compact":
        return {"compacted": cluster.compact()}
    if command == "backup":
        cluster.backup()
        return {"backup": True}
    if command == "restore":
        cluster.restore()
        return {"restored": True}
    return {"error": f"unknown command {command!r}"}


def print_line(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
