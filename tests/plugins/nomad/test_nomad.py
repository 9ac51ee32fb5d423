"""nomad: answers from a scripted API, over real connections."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.nomad import parse
from fastdns.setup import Controller
from tests.certificates import write_certificates
from tests.server import Server, free_port
from tests.waiting import until

Serve = Callable[..., Server]

WEB = [
    {"ServiceName": "web", "Namespace": "default", "Address": "192.0.2.1", "Port": 8080, "Tags": ["a"]},
    {"ServiceName": "web", "Namespace": "default", "Address": "2001:db8::1", "Port": 8081, "Tags": None},
    {"ServiceName": "web", "Namespace": "default", "Address": "::ffff:192.0.2.2", "Port": 8082},
]
CATALOGUE = {("web", "default"): WEB, ("four", "prod"): WEB[:1], ("bad", "default"): [{"Address": "no address", "Port": 1}]}


class Nomad:
    """A server of the API; ``seen`` has path, values and fields of each request."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.server = server
        self.seen: list[tuple[str, dict[str, list[str]], Any]] = []
        self.connections: set[Any] = set()
        self.status = 200

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"

    def answer(self, target: str) -> tuple[int, bytes]:
        url = urlsplit(target)
        values = parse_qs(url.query)
        if self.status != 200:
            return self.status, b"Permission denied"
        if url.path == "/v1/agent/self":
            return 200, b"{}"
        return 200, json.dumps(CATALOGUE.get((url.path.removeprefix("/v1/service/"), values["namespace"][0]), [])).encode()


class UnixServer(ThreadingHTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)


@contextmanager
def nomad(place: Path | int = 0, context: ssl.SSLContext | None = None) -> Iterator[Nomad]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            made.seen.append((urlsplit(self.path).path, parse_qs(urlsplit(self.path).query), self.headers))
            made.connections.add(self.connection)
            status, body = made.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None: ...

    server = UnixServer(str(place), Handler) if isinstance(place, Path) else ThreadingHTTPServer(("127.0.0.1", place), Handler)  # type: ignore[arg-type]
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Nomad(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for connection in made.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def corefile(address: str, options: str = "", above: str = "") -> str:
    place = f"address {address}" if address else ""
    block = f"nomad {{\n        {place}\n        {options}\n    }}"
    return f".:{{port}} {{\n    bind 127.0.0.1\n    prometheus 127.0.0.1:{{port2}}\n    errors\n    {above}\n    {block}\n}}\n"


def texts(section: list[Any]) -> list[str]:
    return sorted(line for rrset in section for line in rrset.to_text().splitlines())


def test_answers(serve: Serve) -> None:
    with nomad() as api:
        server = serve(corefile(f"http://{api.address}", "ttl 60"))
        reply = server.query("Web.default.service.nomad")
        assert reply.flags & dns.flags.AA
        assert texts(reply.answer) == ["Web.default.service.nomad. 60 IN A 192.0.2.1", "Web.default.service.nomad. 60 IN A 192.0.2.2"]
        assert server.answers("web.default.service.nomad", "AAAA") == ["2001:db8::1"]
        assert server.answers("web.default.more.labels.service.nomad", "AAAA") == ["2001:db8::1"]
        reply = server.query("four.prod.service.nomad", "AAAA")
        assert (reply.rcode(), reply.answer, reply.authority) == (0, [], [])
        reply = server.query("web.default.service.nomad", "SRV")
        target = "web.default.service.nomad."
        assert texts(reply.answer) == [f"{target} 60 IN SRV 10 10 {port} {target}" for port in (8080, 8081, 8082)]
        assert texts(reply.additional) == [f"{target} 60 IN A 192.0.2.1", f"{target} 60 IN A 192.0.2.2", f"{target} 60 IN AAAA 2001:db8::1"]
        for name, kind in (("none.default", "A"), ("web.prod", "A"), ("web.default", "TXT"), ("bad.default", "A")):
            reply = server.query(f"{name}.service.nomad", kind)
            assert reply.rcode() == dns.rcode.NXDOMAIN
            soa = f"{name}.service.nomad. 60 IN SOA ns1.{name}.service.nomad. hostmaster.service.nomad. 0 3600 600 86400 30"
            assert texts(reply.answer) == [soa]
        assert len(api.connections) == 1
        labels = f'{{namespace="default",server="dns://127.0.0.1:{server.port}"}}'
        assert server.metric(server.ports["port2"], f"coredns_nomad_success_requests_total{labels}") == 4
        assert server.metric(server.ports["port2"], f"coredns_nomad_failed_requests_total{labels}") == 3


def test_names_that_are_none(serve: Serve) -> None:
    with nomad() as api:
        server = serve(corefile(f"http://{api.address}"))
        for name in ("service.nomad", "web.service.nomad", "other.test", "webservice.nomad"):
            assert server.answers(name) == ["SERVFAIL"]  # there is no next plugin
        assert not api.seen
        assert server.answers("a%2fb.default.service.nomad") == ["NXDOMAIN"]
        assert api.seen[-1][0] == "/v1/service/a%252fb"


def test_what_is_asked(serve: Serve) -> None:
    with nomad() as api:
        server = serve(
            corefile(f"http://{api.address}", 'filter "Tags contains \\"x\\""\n token s3cret'),
            env={"NOMAD_REGION": "eu", "NOMAD_HTTP_AUTH": "user:pass", "NOMAD_TOKEN": "other"},
        )
        assert server.answers("web.default.service.nomad", "AAAA") == ["2001:db8::1"]
        ((path, values, fields),) = api.seen
    assert path == "/v1/service/web"
    assert values == {"namespace": ["default"], "region": ["eu"], "filter": ['Tags contains "x"']}
    assert (fields["X-Nomad-Token"], fields["Authorization"]) == ("s3cret", "Basic dXNlcjpwYXNz")


def test_the_environment_names_the_server(serve: Serve) -> None:
    with nomad() as api:
        server = serve(corefile(""), env={"NOMAD_ADDR": f"http://{api.address}", "NOMAD_TOKEN": "t"})
        assert server.answers("four.prod.service.nomad") == ["192.0.2.1"]
        assert api.seen[0][2]["X-Nomad-Token"] == "t"


def test_failures(serve: Serve) -> None:
    with nomad() as api:
        server = serve(corefile(f"http://{api.address}"))
        api.status = 403
        reply = server.query("web.default.service.nomad")
        assert (reply.rcode(), reply.answer) == (dns.rcode.SERVFAIL, [])
        server.wait_log(r"^\[WARNING\] plugin/nomad: Unexpected response code: 403 \(Permission denied\)$")
        api.status = 200
        assert server.answers("four.prod.service.nomad") == ["192.0.2.1"]
    assert server.answers("four.prod.service.nomad") == ["SERVFAIL"]
    server.wait_log(r'^\[WARNING\] plugin/nomad: Get "http://127\.0\.0\.1:\d+/v1/service/four\?namespace=prod": .*refused')


def test_another_address_answers(serve: Serve) -> None:
    with nomad() as api:
        block = f"address http://127.0.0.1:{free_port()}\n address http://{api.address}"
        server = serve(corefile("", block, "ready 127.0.0.1:{port3}"))
        assert server.answers("four.prod.service.nomad") == ["192.0.2.1"]
        assert server.get(server.ports["port3"], "/ready") == "OK"
    assert server.answers("four.prod.service.nomad") == ["SERVFAIL"]
    server.wait_log(r"^\[WARNING\] plugin/nomad: no Nomad client available: ")


def test_a_unix_socket(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("n") / "s"
    with nomad(path):
        server = serve(corefile(f"unix://{path}"))
        assert server.answers("four.prod.service.nomad") == ["192.0.2.1"]


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"NOMAD_CACERT": "ca.pem", "NOMAD_TLS_SERVER_NAME": "server.test", "NOMAD_CLIENT_CERT": "client.pem", "NOMAD_CLIENT_KEY": "client.key"}, "192.0.2.1"),
        ({"NOMAD_SKIP_VERIFY": "true", "NOMAD_CLIENT_CERT": "client.pem", "NOMAD_CLIENT_KEY": "client.key"}, "192.0.2.1"),
        ({"NOMAD_TLS_SERVER_NAME": "server.test"}, "SERVFAIL"),
    ],
)
def test_tls(serve: Serve, tmp_path: Path, variables: dict[str, str], wanted: str) -> None:
    folder = write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.load_verify_locations(folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with nomad(context=context) as api:
        env = {name: str(folder / value) if "." in value and "NAME" not in name else value for name, value in variables.items()}
        server = serve(corefile(f"https://{api.address}"), env=env)
        assert server.answers("four.prod.service.nomad") == [wanted]


def test_reload(serve: Serve) -> None:
    with nomad() as api:
        server = serve(corefile(f"http://{api.address}"))
        assert server.query("four.prod.service.nomad").answer[0].ttl == 30
        server.reload(corefile(f"http://{api.address}", "ttl 0"))
        until(lambda: server.query("four.prod.service.nomad").answer[0].ttl == 0)


@pytest.mark.parametrize(
    ("text", "zone", "addresses", "ttl"),
    [
        ("nomad", "service.nomad.", [], 30),
        ("nomad Nomad.TEST ignored", "nomad.test.", [], 30),
        ("nomad {\n ADDRESS a b\n address c\n TTL 0\n}", "service.nomad.", ["a", "b", "c"], 0),
        ("nomad {\n ttl 3600\n filter x\n token y\n}", "service.nomad.", [], 3600),
    ],
)
def test_good(text: str, zone: str, addresses: list[str], ttl: int) -> None:
    options = parse(Controller.of(text))
    assert (options.zone, options.addresses, options.ttl) == (zone, addresses, ttl)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("nomad {\n address\n}", "at least one address is required"),
        ("nomad {\n filter a b\n}", "exactly one filter is required"),
        ("nomad {\n token\n}", "exactly one token is required"),
        ("nomad {\n ttl\n}", "exactly one ttl value is required"),
        ("nomad {\n ttl x\n}", 'error parsing ttl: strconv.Atoi: parsing "x": invalid syntax'),
        ("nomad {\n ttl 3601\n}", "ttl must be in range [0, 3600]: 3601"),
        ("nomad {\n ttl -1\n}", "ttl must be in range [0, 3600]: -1"),
        ("nomad {\n Other x\n}", "unknown property 'other'"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text))
    assert str(caught.value) == f"Testfile:2 - Error during parsing: {error}"


def test_an_address_that_is_none(serve: Serve) -> None:
    server = serve(corefile("ftp://x"), wait=False)
    assert server.exit_status() == 1
    assert "invalid address 'ftp://x'" in server.log()
