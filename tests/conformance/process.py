"""The server under test as a process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.errors import Problem

__all__ = ["Process"]


class Process:
    """A server in its folder; its output goes to ``server.log`` there. Proxies and the cluster of the environment are hidden from it."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        proxies = ("http_proxy", "https_proxy", "all_proxy")
        inherited = {name: value for name, value in os.environ.items() if name.lower() not in proxies and not name.startswith("KUBERNETES_")}
        self.log_path = folder / "server.log"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**inherited, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self.process.poll()

    def wait(self, limit: float) -> int | None:
        """The exit status, None if it still runs after ``limit`` seconds."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, name: str) -> None:
        """``USR1`` and so on."""
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def wait_listening(self, host: str, port: int, udp: bool, end: float) -> None:
        """Raises Problem when the server exits, or does not listen at the monotonic time ``end``."""
        while not (has_udp(host, port) if udp else accepts(host, port)):
            if self.status() is not None:
                raise Problem(f"server exited with {self.status()}: {self.log().strip()[-300:]}")
            if time.monotonic() > end:
                raise Problem(f"server does not listen on {'udp' if udp else 'tcp'} port {port}")
            time.sleep(0.02)

    def refusal(self, pattern: str | bool) -> list[str]:
        """What is wrong with how the server refused its Corefile; ``pattern`` is what the output must match, or True."""
        status = self.wait(10)
        if status is None:
            return ["the server did not exit"]
        if status == 0:
            return ["exit status 0"]
        if isinstance(pattern, str) and not re.search(pattern, self.log(), re.IGNORECASE | re.DOTALL):
            return [f"output lacks /{pattern}/: {self.log().strip()[-300:]}"]
        return []

    def stop(self) -> None:
        if self.status() is None:
            self.process.terminate()
            if self.wait(7) is None:
                self.process.kill()
                self.process.wait()


def accepts(host: str, port: int) -> bool:
    """Whether somebody accepts TCP connections."""
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


def has_udp(host: str, port: int) -> bool:
    """Whether a socket receives datagrams: ICMP would otherwise refuse one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.settimeout(0.1)
        probe.connect((host, port))
        try:
            probe.send(b"\0")
            probe.recv(1)
        except TimeoutError:
            return True
        except ConnectionRefusedError:
            return False
    return True
