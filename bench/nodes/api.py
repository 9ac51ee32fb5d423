"""A real API server with an etcd of its own, from programs that are there, filled with a cluster."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastdns.bench.parts.api import KINDS
from fastdns.bench.servers import StartError
from fastdns.bench.servers.ports import free_port
from fastdns.bench.workload import WorkloadError

__all__ = ["APIServer", "find_programs"]

PROGRAMS = ("etcd", "apiserver")
#: Seconds for a program to be ready, to end, and for a request.
READY, END, REPLY = 120.0, 15.0, 60.0
#: Connections that fill it.
CONNECTIONS = 8
#: What an API server sets itself.
SERVERS_OWN = ("resourceVersion", "uid", "creationTimestamp")
WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\d+)$', re.M)

Object = dict[str, Any]


def find_programs(folder: Path | None) -> Path:
    """The folder with ``apiserver`` and ``etcd``: the given one, or the newest that the tests have built. Raises WorkloadError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastdns-apiserver"
    tried = [folder] if folder is not None else sorted(cache.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True)
    for one in tried:
        if all(os.access(one / name, os.X_OK) for name in PROGRAMS):
            return one
    where = f"no {' and '.join(PROGRAMS)} in {folder or cache}"
    raise WorkloadError(f"{where}: `python -m tests.apiserver --build-only` builds them, and --api-programs names their folder")


class APIServer:
    """Runs from entering to leaving, on free ports of 127.0.0.1; everybody may do everything. Raises StartError."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        etcd, peer = free_port(), free_port()
        self._etcd = f"http://127.0.0.1:{etcd}"
        peers = f"http://127.0.0.1:{peer}"
        self._commands = [
            (
                f"{self._etcd}/health",
                [
                    str(programs / "etcd"),
                    "--name=bench",
                    f"--data-dir={folder / 'etcd'}",
                    f"--listen-client-urls={self._etcd}",
                    f"--advertise-client-urls={self._etcd}",
                    f"--listen-peer-urls={peers}",
                    f"--initial-advertise-peer-urls={peers}",
                    f"--initial-cluster=bench={peers}",
                    f"--quota-backend-bytes={8 << 30}",
                    "--unsafe-no-fsync",
                    "--watch-progress-notify-interval=5s",
                ],
            ),
            (
                f"http://127.0.0.1:{self.port}/readyz",
                [
                    str(programs / "apiserver"),
                    f"--etcd-servers={self._etcd}",
                    f"--port={free_port()}",
                    f"--http-port={self.port}",
                    f"--data-dir={folder / 'api'}",
                ],
            ),
        ]
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> APIServer:
        try:
            for url, command in self._commands:
                self._start(url, command)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, url: str, command: list[str]) -> None:
        log = self.folder / f"{Path(command[0]).name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._running.append(process)
        over = time.monotonic() + READY
        while not answers(url):
            if process.poll() is not None or time.monotonic() > over:
                raise StartError(f"{command[0]} did not become ready:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def watches(self) -> int:
        """Watches that are open, as it counts them itself. Raises OSError."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=REPLY) as reply:
            return sum(map(int, WATCHES.findall(reply.read().decode())))

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=REPLY)

    def fill(self, objects: Iterable[tuple[str, Object]]) -> int:
        """Creates objects, which come with their plurals; how many there are. Those that exist stay as they are. Raises OSError."""
        source = list(objects)
        shares = [source[i::CONNECTIONS] for i in range(CONNECTIONS)]
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(self._fill, shares))
        return len(source)

    def _fill(self, objects: list[tuple[str, Object]]) -> None:
        with contextlib.closing(self.connect()) as connection:
            for plural, thing in objects:
                send(connection, "POST", plural, thing, exists=True)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def send(connection: http.client.HTTPConnection, method: str, plural: str, thing: Object, *, exists: bool = False) -> None:
    """POST, PUT or DELETE of an object; ``exists``: it may be there. Raises OSError."""
    meta = {key: value for key, value in thing["metadata"].items() if key not in SERVERS_OWN}
    namespace = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    path = f"{KINDS[plural][0]}{namespace}/{plural}" + ("" if method == "POST" else f"/{meta['name']}")
    body = None if method == "DELETE" else json.dumps({**thing, "metadata": meta})
    connection.request(method, path, body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    text = reply.read()
    if reply.status >= 300 and not (exists and reply.status == 409):
        raise OSError(f"{method} {path}: {reply.status}: {text[:200]!r}")
