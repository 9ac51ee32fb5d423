"""A real etcd, asked and changed over its JSON gateway."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.server import free_port
from tests.waiting import REPLY, until

__all__ = ["Etcd", "coded"]


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """One member, in a folder that outlives it."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.port, self.peer = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        peer = f"http://127.0.0.1:{self.peer}"
        words = ["--data-dir", str(self.folder / "data"), "--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peer]
        words += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}", "--unsafe-no-fsync"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([self.program, *words], stdout=log, stderr=log)
        until(self.answers, "etcd's start")

    def answers(self) -> bool:
        try:
            self.call("kv/range", key=coded("/"))
        except urllib.error.HTTPError as error:
            return b"user name is empty" in error.read()  # it answers, but only to users
        except OSError:
            return False
        return True

    def call(self, what: str, token: str = "", **body: Any) -> dict[str, Any]:
        headers = {"Authorization": token} if token else {}
        request = urllib.request.Request(f"{self.url}/v3/{what}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=REPLY) as reply:
            return dict(json.loads(reply.read()))

    def put(self, key: str, value: Any, **more: Any) -> int:
        """The revision of the change."""
        text = value if isinstance(value, str) else json.dumps(value)
        return int(self.call("kv/put", key=coded(key), value=coded(text), **more)["header"]["revision"])

    def delete(self, key: str) -> int:
        return int(self.call("kv/deleterange", key=coded(key))["header"]["revision"])

    def clear(self) -> None:
        self.call("kv/deleterange", key=coded("/"), range_end=coded("0"))

    def stop(self) -> None:
        """At once: a graceful end waits for clients that watch."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
