"""The API server for the length of a test."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT

__all__ = ["ROOT", "ApiServer"]

#: Where ``python -m tests.…`` finds its modules.
ROOT = Path(__file__).parents[2]


class ApiServer:
    """Runs until :meth:`stop`. ``flags`` are those of ``python -m tests.apiserver``."""

    def __init__(self, *flags: str) -> None:
        command = [sys.executable, "-m", "tests.apiserver", *flags]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the API server did not start: status {self.process.wait(LIMIT)}"
        #: Where everything is; README.md lists the keys.
        self.info: dict[str, Any] = json.loads(line)
        self.http: str = self.info["http"]
        self.token = Path(self.info["token_file"]).read_text(encoding="utf-8")

    def populate(self, *arguments: str) -> None:
        """Fill it with a synthetic cluster, a small one if the arguments name no other."""
        command = [sys.executable, "-m", "tests.apiserver.populate", "--server", self.http, "--token-file", self.info["token_file"], *arguments]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    def command(self, line: str) -> Any:
        """``stop``, ``start``, ``compact``, ``backup`` or ``restore``."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The reply's JSON. Raises AssertionError for a status that is no success."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.http + path, data, headers, method=method), timeout=LIMIT) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def create(self, body: Any) -> Any:
        """A Service."""
        return self.ask("POST", f"/api/v1/namespaces/{body['metadata']['namespace']}/services", body)

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(LIMIT)
        self.process.stdout.close()
        assert status == 0
