"""The pages of the console: one of HTML with its scripts and styles, and JSON below /api/."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from fastdns.corefile.address import packed
from fastdns.httpd.message import Later, Reply, Request
from fastdns.plugins.console.access import Access
from fastdns.telemetry import status

__all__ = ["Pages"]

FOLDER = os.path.join(os.path.dirname(__file__), "static")
KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
JSON = "application/json"

#: Of every reply. Only the console's own files are loaded, nothing is inline, and no text becomes HTML (Trusted Types), wherever it comes from.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SAFETY = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
#: Parameters of a request, and those of them that are numbers.
PARAMETERS_MAX = 20
NUMBERS = ("window", "most", "history_after", "events_after")
#: The section that takes long.
SLOW = "recorder"
#: Octets of a reply that are worth packing.
PACK_FROM = 1400

Page = Callable[[Request], Reply | Later]


class Pages:
    """The pages of one address."""

    def __init__(self, access: Access, process: Any) -> None:
        self._access = access
        self._process = process

    def paths(self) -> dict[str, Page]:
        """All pages by their path."""
        files = {name: _read(name) for name in sorted(os.listdir(FOLDER)) if os.path.splitext(name)[1] in KINDS}
        found = {f"/{'' if name == 'index.html' else name}": self._file(name, body) for name, body in files.items()}
        return {**found, "/api/status": self.status, "/api/explain": self.explain}

    def _file(self, name: str, body: bytes) -> Page:
        kind = KINDS[os.path.splitext(name)[1]]

        def page(request: Request) -> Reply:
            return _safe(self._access.refusal(request, data=False) or _packed(request, body, kind))

        return page

    def status(self, request: Request) -> Reply | Later:
        """Sections of the status document: ``/api/status?sections=server,rates&history_after=0``."""
        refusal = self._access.refusal(request, data=True)
        if refusal is not None:
            return _safe(refusal)
        try:
            values = _parameters(request.query)
            wanted: dict[str, Any] = {key: int(value) if key in NUMBERS else value for key, value in values.items()}
        except ValueError as error:
            return _json(request, 400, {"problem": str(error)})
        names = [name for name in values.get("sections", "").split(",") if name]
        # A large recorder takes seconds to read: probes of *ready* are answered meanwhile.
        return Later(lambda: _report(request, names, wanted)) if not names or SLOW in names else _report(request, names, wanted)

    def explain(self, request: Request) -> Reply | Later:
        """What becomes of a query: ``/api/explain?name=example.org&type=A&client=192.0.2.1&tcp=1&address=dns://:53``."""
        refusal = self._access.refusal(request, data=True)
        return _safe(refusal) if refusal is not None else Later(lambda: self._explained(request))

    def _explained(self, request: Request) -> Reply:
        from fastdns.server.expectations import parse_question

        try:
            values = _parameters(request.query)
            words = [values["name"], values.get("type", "A")]
            if any(len(word.split()) != 1 for word in words):
                raise ValueError("a name and a type are one word each")
            client = values.get("client", "").strip()
            if client and packed(client) is None:
                raise ValueError(f"{client} is no IP address")
            question = parse_question(" ".join(words) + (f" from {client}" if client else ""))
            asked = {"packet": question.packet().hex(), "client": question.client.hex(), "address": values.get("address", "")}
            found = self._process.answer({**asked, "tcp": values.get("tcp") == "1", "type": question.qtype})
        except KeyError as error:
            return _json(request, 400, {"problem": f"{error.args[0]} is missing"})
        except (ValueError, TypeError) as error:
            return _json(request, 400, {"problem": str(error)})
        return _json(request, 200, {"question": str(question), **found})


def _report(request: Request, names: list[str], wanted: dict[str, Any]) -> Reply:
    try:
        return _json(request, 200, status.report(names, wanted))
    except (ValueError, KeyError, TypeError) as error:
        return _json(request, 400, {"problem": str(error)})


def _read(name: str) -> bytes:
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read()


def _parameters(query: str) -> dict[str, str]:
    """Of several parameters with the same name the last one. Raises ValueError."""
    return {key: values[-1] for key, values in parse_qs(query, max_num_fields=PARAMETERS_MAX).items()}


def _json(request: Request, code: int, value: object) -> Reply:
    return _safe(_packed(request, json.dumps(value, separators=(",", ":"), default=str).encode(), JSON)._replace(status=code))


def _packed(request: Request, body: bytes, kind: str) -> Reply:
    if len(body) < PACK_FROM or "gzip" not in request.fields.get("accept-encoding", ""):
        return Reply(200, body, kind)
    return Reply(200, gzip.compress(body, 1, mtime=0), kind, (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")))


def _safe(reply: Reply) -> Reply:
    return reply._replace(fields=(*reply.fields, *SAFETY))
