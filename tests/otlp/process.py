"""The Collector for the length of a test."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests import golang
from tests.collector import Collector
from tests.programs import environment
from tests.server import free_port
from tests.waiting import LIMIT, REPLY, until

__all__ = ["OtlpCollector", "attributes", "build"]


def build() -> Path:
    """The Collector of ``program``, built once for the machine. Raises golang.Unbuildable."""
    return golang.program("collector", Path(__file__).with_name("program"), ".", "two minutes")


class OtlpCollector:
    """Receives OTLP over HTTP, and passes it on to a `Collector` as JSON at once. A batch that this one refuses is refused to the sender too."""

    def __init__(self, program: Path, folder: Path, sink: Collector, certificates: Path | None = None) -> None:
        """certificates: a folder with ``server.pem`` and ``server.key`` to listen with."""
        self.program, self.folder, self.sink = program, folder, sink
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        listens: dict[str, Any] = {"endpoint": self.address}
        if certificates is not None:
            listens["tls"] = {"cert_file": str(certificates / "server.pem"), "key_file": str(certificates / "server.key")}
        sends = {
            "endpoint": f"http://{sink.address}",
            "encoding": "json",
            "compression": "none",
            "retry_on_failure": {"enabled": False},
            "sending_queue": {"enabled": False},
        }
        settings = {
            "receivers": {"otlp": {"protocols": {"http": listens}}},
            "exporters": {"otlp_http": sends},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
            },
        }
        (folder / "collector.yaml").write_text(yaml.safe_dump(settings))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def resources(self) -> list[dict[str, Any]]:
        """What has come: resources, with scopes and their spans."""
        return [resource for *_, body in list(self.sink.seen) for resource in json.loads(body)["resourceSpans"]]

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for resource in self.resources for scope in resource["scopeSpans"] for span in scope["spans"]]

    def root(self, name: str) -> dict[str, Any] | None:
        """The span of a query that is there once at most."""
        found = [span for span in self.spans if attributes(span).get("coredns.io/name") == name]
        assert len(found) <= 1
        return found[0] if found else None

    def wait(self, name: str) -> dict[str, Any]:
        return until(lambda: self.root(name), f"the trace of {name}")

    def start(self) -> None:
        """Returns once it listens."""
        with (self.folder / "collector.log").open("ab") as log:
            command = [str(self.program), "--config", f"file:{self.folder}/collector.yaml"]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment())
        until(self._listens, "the start of the Collector")

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "collector.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), REPLY).close()
        except ConnectionRefusedError:
            return False
        return True

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(LIMIT)


def attributes(of: dict[str, Any]) -> dict[str, str]:
    """Of a span or a resource."""
    return {one["key"]: one["value"]["stringValue"] for one in of.get("attributes", []) if "stringValue" in one["value"]}
