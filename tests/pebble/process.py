"""Pebble for the length of a test."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from tests import golang
from tests.certificates import client_context
from tests.programs import environment
from tests.server import free_port
from tests.waiting import LIMIT, REPLY, until

__all__ = ["Pebble", "build"]


def build() -> Path:
    """Pebble of ``program/go.mod``, built once for the machine. Raises golang.Unbuildable."""
    return golang.program("pebble", Path(__file__).with_name("program"), "github.com/letsencrypt/pebble/v2/cmd/pebble", "half a minute")


class Pebble:
    """A CA that asks for challenges at ``127.0.0.1:dns_port``. ``folder`` has a certificate for it (``server``) by ``ca``; it gets configuration and log."""

    def __init__(self, program: Path, folder: Path, dns_port: int) -> None:
        self.program = program
        self.folder = folder
        self.dns_port = dns_port
        self.port = free_port()
        self.log_path = folder / "pebble.log"
        self.process: subprocess.Popen[bytes] | None = None
        settings = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "certificate": str(folder / "server.pem"),
            "privateKey": str(folder / "server.key"),
            "httpPort": 1,
            "tlsPort": 1,
            "keyAlgorithm": "ecdsa",
        }
        (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))

    @property
    def directory(self) -> str:
        """By the name in its certificate, which the system's resolver does not know."""
        return f"https://server.test:{self.port}/dir"

    def start(self) -> None:
        """Returns once it answers. Accounts and certificates of a former process are gone."""
        command = [str(self.program), "-config", str(self.folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{self.dns_port}"]
        quick = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env={**environment(), **quick})
        until(self._answers, "the start of Pebble")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return bool(self._get(f"https://127.0.0.1:{self.port}/dir"))
        except urllib.error.URLError:
            return False

    def issued(self) -> int:
        """Certificates so far."""
        return self.log().count("Issued certificate serial")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def _get(self, url: str) -> bytes:
        context: ssl.SSLContext = client_context(self.folder)
        with urllib.request.urlopen(url, timeout=REPLY, context=context) as reply:
            octets: bytes = reply.read()
        return octets

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(LIMIT)
