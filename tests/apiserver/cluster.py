"""The processes of one test cluster: etcd and the API server."""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Cluster", "Failed"]

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A program is missing or did not become ready; the text has the end of its log."""


class Cluster:
    """``options`` are those of the command line, ``flags`` go to the API server, all data into ``folder``."""

    def __init__(self, options: argparse.Namespace, flags: Sequence[str], programs: Path, folder: Path) -> None:
        self.folder = folder
        etcd_port, peer_port, *spare = free_ports(4)
        self.port, self.http_port = options.port or spare[0], options.http_port or spare[1]
        self.etcd_url, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        self.etcd_log, self.server_log = folder / "etcd.log", folder / "apiserver.log"
        self.etcd: subprocess.Popen[bytes] | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.etcd_command = [
            find_etcd(options.etcd, programs),
            "--name=test",
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            f"--quota-backend-bytes={8 << 30}",
            "--unsafe-no-fsync",
        ]
        if options.etcd == "built":
            self.etcd_command.append("--watch-progress-notify-interval=5s")
        self.server_command = [
            str(programs / "apiserver"),
            f"--etcd-servers={self.etcd_url}",
            f"--port={self.port}",
            f"--http-port={self.http_port}",
            f"--data-dir={folder}",
            *flags,
        ]

    def start(self) -> None:
        """Raises Failed."""
        self.start_etcd()
        self.start_server()

    def start_etcd(self) -> None:
        """Raises Failed."""
        self.etcd = start(self.etcd_command, self.etcd_log)
        wait_until(lambda: is_ready(f"{self.etcd_url}/health"), self.etcd, self.etcd_log)

    def start_server(self) -> None:
        """Nothing if it runs. Raises Failed."""
        if self.server is None or self.server.poll() is not None:
            self.server = start(self.server_command, self.server_log)
            wait_until(self.server_ready, self.server, self.server_log)

    def server_ready(self) -> bool:
        try:
            context = ssl.create_default_context(cafile=self.folder / "ca.crt")
            token = (self.folder / "token").read_text(encoding="utf-8")
        except OSError:  # not written yet
            return False
        url = f"https://127.0.0.1:{self.port}/readyz"
        return is_ready(urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}), context)

    def stop_server(self) -> None:
        stop(self.server)

    def stop(self) -> None:
        stop(self.server)
        stop(self.etcd)

    def backup(self) -> None:
        """Keeps what etcd has now. Raises Failed."""
        self._exchange(self.folder / "etcd", self.folder / "backup")

    def restore(self) -> None:
        """What was kept takes the place of what etcd has: objects and revisions go back. Raises Failed."""
        self._exchange(self.folder / "backup", self.folder / "etcd")

    def _exchange(self, source: Path, target: Path) -> None:
        """Copies while neither etcd nor the server runs; afterwards both do."""
        self.stop()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self.start()

    def running(self) -> bool:
        return self.etcd is not None and self.etcd.poll() is None

    def compact(self) -> int:
        """Lets etcd forget all revisions before its newest one, which is returned."""
        revision = int(self._call_etcd("range", {"key": "AA=="})["header"]["revision"])
        self._call_etcd("compaction", {"revision": revision})
        return revision

    def _call_etcd(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/{method}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as reply:
            return dict(json.load(reply))

    def describe(self) -> dict[str, Any]:
        """Where everything is, as README.md lists it."""
        files = {
            "kubeconfig": "kubeconfig",
            "ca": "ca.crt",
            "client_cert": "client.crt",
            "client_key": "client.key",
            "token_file": "token",
            "log": "apiserver.log",
        }
        return {
            **{name: str(self.folder / file) for name, file in files.items()},
            "https": f"https://127.0.0.1:{self.port}",
            "http": f"http://127.0.0.1:{self.http_port}",
            "etcd": self.etcd_url,
            "data_dir": str(self.folder),
            "pid": self.server.pid if self.server else None,
            "etcd_pid": self.etcd.pid if self.etcd else None,
        }


def find_etcd(choice: str, programs: Path) -> str:
    """``built``, ``system`` or a path. Raises Failed."""
    if choice == "built":
        return str(programs / "etcd")
    path = shutil.which("etcd" if choice == "system" else choice)
    if path is None:
        raise Failed(f"no etcd found ({choice})")
    return path


def free_ports(count: int) -> list[int]:
    """Ports that are free for TCP now, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Starts a program that gets TERM when this process ends, whatever ends it."""
    with log.open("ab") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM))


def stop(process: subprocess.Popen[bytes] | None, seconds: float = 15) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_ready(request: str | urllib.request.Request, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as reply:
            return bool(reply.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    """Raises Failed."""
    end = time.monotonic() + seconds
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            raise Failed(f"{log.stem} did not become ready; the end of its log:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
        time.sleep(0.1)
