"""Who gets the console: the Corefile's options, tokens, names, and requests of other pages."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import dns.message
import pytest

from fastdns.corefile import CorefileError
from fastdns.httpd.endpoint import LATER_MAX
from fastdns.plugins.console import Settings, is_loopback, parse, setup
from tests.certificates import write_certificates
from tests.directives import directives
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]
TOKEN = "correct-horse-battery-staple"
MARK = {"X-Requested-With": "fastdns"}


# ---- the Corefile ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("console", Settings()),
        ("console 127.0.0.1:9000", Settings("127.0.0.1:9000")),
        ("console :9000 { token /t }", Settings(":9000", token_file="/t")),
        ("console { token_env T; host dns.example.org Other. }", Settings(token_variable="T", hosts=("dns.example.org", "other"))),
    ],
)
def test_options(text: str, expected: Settings) -> None:
    assert parse(directives(text)) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("console a b", "Wrong argument count"),
        ("console 127.0.0.1", "missing port in address"),
        ("console { write }", "unknown property 'write'"),
        ("console { token }", "Wrong argument count"),
        ("console { token /none/here }", "no such file"),
        ("console { token_env FASTDNS_NONE }", "the environment has no variable FASTDNS_NONE"),
        ("console { token a; token_env B }", "exclude each other"),
        ("console { tls /none/here }", "no such file"),
        ("console :9000", "it needs a token"),
        ("console 192.0.2.1:9000", "it needs a token"),
        ("console example.org:9000", "it needs a token"),
        ("console [::]:9000", "it needs a token"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match="(?i)" + error):
        setup(directives(text))


def test_a_short_token_is_refused_and_not_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2\n")
    with pytest.raises(CorefileError, match="at least 16 characters") as caught:
        setup(directives(f"console {{ token {tmp_path}/token }}"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("localhost:1", True),
        ("127.0.0.9:1", True),
        ("[::1]:1", True),
        (":1", False),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example.:1", False),
    ],
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_blocks_share_an_address_with_the_same_options(serve: Serve) -> None:
    server = serve("a.test:{port} {\n console 127.0.0.1:{port2}\n whoami\n}\nb.test:{port} {\n console 127.0.0.1:{port2}\n whoami\n}")
    assert get(server, "/")[0] == 200
    first = "a.test:{port} {\n console 127.0.0.1:{port2}\n whoami\n}\n"
    server = serve(first + "b.test:{port} {\n console 127.0.0.1:{port2} {\n  host x\n }\n whoami\n}", wait=False)
    server.process.wait(20)
    assert "has other options in another block" in server.log()
    assert re.search(r"Corefile:\d+ - Error during parsing", server.log())


# ---- requests ----


def get(server: Server, path: str, method: str = "GET", **fields: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["port2"], timeout=20)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    return serve(".:{port} {\n console 127.0.0.1:{port2} {\n  host dns.example.org\n }\n whoami\n}")


@pytest.mark.parametrize("path", ["/", "/console.js", "/console.css", "/icon.svg", "/api/status", "/api/explain"])
def test_every_page_has_the_policy(server: Server, path: str) -> None:
    _, fields, _ = get(server, path)
    policy = fields["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Cache-Control"] == "no-store"


def test_pages_load_nothing_from_elsewhere(server: Server) -> None:
    """And hold no script: what they name is here."""
    page = get(server, "/")[2].decode()
    assert not re.search(r"<script(?! type=\"module\" src=\"/console.js\"></script>)|\son\w+=|<style|style=", page)
    for path in ("/", "/console.js", "/console.css", "/dom.js", "/charts.js", "/overview.js", "/clients.js", "/queries.js", "/views.js", "/rates.js"):
        status, _, body = get(server, path)
        assert status == 200
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", body.decode()), path
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", body.decode()), path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8053", 200),
        ("[::1]:8053", 200),
        ("localhost:1", 200),
        ("DNS.example.org", 200),
        ("attacker.example:8053", 421),
        ("localhost.attacker.example", 421),
        ("127.0.0.1.attacker.example", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_other_names_are_refused(server: Server, host: str, status: int) -> None:
    """A name that an attacker lets resolve to this address."""
    assert get(server, "/api/status?sections=server", Host=host, **{"X-Requested-With": "fastdns"})[0] == status
    assert get(server, "/", Host=host)[0] == status


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 403),
        ({"X-Requested-With": "XMLHttpRequest"}, 403),
        (MARK, 200),
        ({**MARK, "Origin": "http://attacker.example"}, 403),
        ({**MARK, "Origin": "null"}, 403),
        ({**MARK, "Origin": "http://["}, 403),
        ({**MARK, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**MARK, "Sec-Fetch-Site": "same-site"}, 403),
        ({**MARK, "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_other_pages_are_refused(server: Server, fields: dict[str, str], status: int) -> None:
    assert get(server, "/api/status?sections=server", **fields)[0] == status
    assert get(server, "/api/explain?name=example.org", **fields)[0] == status


def test_an_origin_that_is_ours(server: Server) -> None:
    host = f"127.0.0.1:{server.ports['port2']}"
    assert get(server, "/api/status?sections=server", Origin=f"http://{host}", **MARK)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_it_is_read_only(server: Server, method: str) -> None:
    for path in ("/", "/api/status", "/api/explain"):
        status, fields, _ = get(server, path, method, **MARK)
        assert (status, fields["Allow"]) == (405, "GET, HEAD")
        assert "Access-Control-Allow-Origin" not in fields


# ---- the token ----


def authorized(token: str) -> dict[str, str]:
    return {**MARK, "Authorization": f"Bearer {token}"}


def test_token_of_a_file(serve: Serve) -> None:
    server = serve(
        ".:{port} {\n console :{port2} {\n  token token\n }\n whoami\n log\n errors\n}", prepare=lambda folder: (folder / "token").write_text(f"{TOKEN}\n")
    )
    path = "/api/status?sections=server"
    assert get(server, "/")[0] == 200, "the empty page says nothing"
    for fields in (MARK, authorized(""), authorized(TOKEN[:-1]), authorized(TOKEN + "x"), authorized("ä" * 20), {**MARK, "Authorization": f"Basic {TOKEN}"}):
        status, got, body = get(server, path, **fields)
        assert (status, got["WWW-Authenticate"]) == (401, "Bearer")
        assert b"version" not in body
    assert get(server, "/api/explain?name=example.org", **MARK)[0] == 401
    status, _, body = get(server, path, **authorized(TOKEN))
    assert status == 200
    assert json.loads(body)["server"]["pid"] == server.pid
    assert TOKEN not in get(server, "/api/status", **authorized(TOKEN))[2].decode()
    assert TOKEN not in server.log()
    (server.folder / "token").write_text("another-token-of-length\n")
    until(lambda: get(server, path, **authorized("another-token-of-length"))[0] == 200, "the new token counts")
    assert get(server, path, **authorized(TOKEN))[0] == 401
    assert "another-token" not in server.log()


def test_token_of_the_environment(serve: Serve) -> None:
    server = serve(".:{port} {\n console :{port2} {\n  token_env CONSOLE\n }\n whoami\n}", env={"CONSOLE": TOKEN})
    assert get(server, "/api/status?sections=server", **MARK)[0] == 401
    assert get(server, "/api/status?sections=server", **authorized(TOKEN))[0] == 200


def test_mutual_tls_in_place_of_a_token(serve: Serve, tmp_path: Path) -> None:
    folder = write_certificates(tmp_path)
    lines = [f"  cert_file: {folder}/server.pem", f"  key_file: {folder}/server.key", f"  client_ca_file: {folder}/ca.pem"]
    verified = "\n".join(["tls_server_config:", *lines, "  client_auth_type: RequireAndVerifyClientCert"])
    unverified = "\n".join(["tls_server_config:", *lines[:2]])
    corefile = ".:{port} {\n console :{port2} {\n  tls web.yml\n }\n whoami\n}"
    refused = serve(corefile, prepare=lambda folder: (folder / "web.yml").write_text(unverified), wait=False)
    refused.process.wait(20)
    assert "it needs a token, or tls with client_auth_type" in refused.log()
    server = serve(corefile, prepare=lambda folder: (folder / "web.yml").write_text(verified))

    def status(certificate: bool) -> int:
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.check_hostname = False
        if certificate:
            context.load_cert_chain(folder / "client.pem", folder / "client.key")
        connection = http.client.HTTPSConnection("127.0.0.1", server.ports["port2"], timeout=20, context=context)
        try:
            connection.request("GET", "/api/status?sections=server", headers=MARK)
            return connection.getresponse().status
        finally:
            connection.close()

    assert status(True) == 200
    with pytest.raises((ssl.SSLError, OSError)):
        status(False)


# ---- others are not kept out ----


def test_slow_readers_do_not_keep_others_out(server: Server) -> None:
    request = f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n{'X-Requested-With: fastdns'}\r\n\r\n".encode()
    slow = [socket.create_connection(("127.0.0.1", server.ports["port2"])) for _ in range(80)]
    try:
        for connection in slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            try:
                connection.sendall(request)
            except OSError:
                pass  # replaced by a later one
        began = time.monotonic()
        assert get(server, "/api/status?sections=server", **MARK)[0] == 200
        assert time.monotonic() - began < 5
    finally:
        for connection in slow:
            connection.close()


def test_an_explanation_that_waits_holds_nobody_up(serve: Serve) -> None:
    """For example of an upstream that is silent: the page of `ready` and others share the thread."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        server = serve(f".:{{port}} {{\n console 127.0.0.1:{{port2}}\n forward . 127.0.0.1:{silent.getsockname()[1]}\n}}")
        with socket.create_connection(("127.0.0.1", server.ports["port2"])) as asking:
            asking.sendall(b"GET /api/explain?name=example.org HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Requested-With: fastdns\r\n\r\n")
            silent.settimeout(10)
            silent.recv(512)
            began = time.monotonic()
            assert get(server, "/api/status?sections=server", **MARK)[0] == 200
            assert time.monotonic() - began < 2
            asking.setblocking(False)
            with pytest.raises(BlockingIOError):
                asking.recv(1)


def test_a_client_with_many_explanations_does_not_keep_others_out(serve: Serve) -> None:
    """As many wait for an upstream as one client gets; another client is answered, and the first one's next is not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent, contextlib.ExitStack() as held:
        silent.bind(("127.0.0.1", 0))
        server = serve(f".:{{port}} {{\n console 127.0.0.1:{{port2}}\n recorder 1MiB\n forward . 127.0.0.1:{silent.getsockname()[1]}\n}}")
        address = ("127.0.0.1", server.ports["port2"])

        def ask(source: str, target: str) -> socket.socket:
            connection = held.enter_context(socket.create_connection(address, LIMIT, (source, 0)))
            connection.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Requested-With: fastdns\r\n\r\n".encode())
            return connection

        waiting = [ask("127.0.0.2", f"/api/explain?name=n{number}.example.org") for number in range(LATER_MAX)]
        silent.settimeout(LIMIT)
        for _ in range(LATER_MAX // 2):
            silent.recv(512)
        assert ask("127.0.0.3", "/api/status?sections=recorder").recv(4096).startswith(b"HTTP/1.1 200 OK")
        until(lambda: len(select.select(waiting, [], [], 0)[0]) == LATER_MAX // 2)
        assert {connection.recv(4096)[:12] for connection in select.select(waiting, [], [], 0)[0]} == {b"HTTP/1.1 503"}


# ---- data ----


def test_many_recorded_queries_hold_nobody_up(serve: Serve) -> None:
    """A probe that comes while they are read is answered first."""
    server = serve(".:{port} {\n console 127.0.0.1:{port2}\n ready 127.0.0.1:{port3}\n recorder 8MiB\n whoami\n}\n")
    query = dns.message.make_query("a.example.org", "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", server.port))
        sock.settimeout(REPLY)
        for _ in range(200):
            for _ in range(50):
                sock.send(query)
            for _ in range(50):
                sock.recv(4096)
    with socket.create_connection(("127.0.0.1", server.ports["port2"]), LIMIT) as console:
        console.sendall(b"GET /api/status?sections=recorder&most=10000 HTTP/1.1\r\nHost: localhost\r\nX-Requested-With: fastdns\r\n\r\n")
        time.sleep(0.05)
        assert server.get(server.ports["port3"], "/ready") == "OK"
        assert select.select([console], [], [], 0)[0] == [], "the queries are still being read"
        assert console.recv(4096).startswith(b"HTTP/1.1 200 OK")


def test_sections_and_their_parameters(server: Server) -> None:
    status, fields, body = get(server, "/api/status?sections=server,rates&history_after=0", **MARK)
    assert (status, fields["Content-Type"]) == (200, "application/json")
    assert set(json.loads(body)) == {"server", "rates"}
    assert json.loads(body)["rates"]["counted"], "console counts where prometheus does not"
    for query in ("history_after=x&sections=rates", "&".join(f"a{number}=1" for number in range(30))):
        status, _, body = get(server, f"/api/status?{query}", **MARK)
        assert status == 400
        assert "problem" in json.loads(body)


def test_explain(server: Server) -> None:
    status, _, body = get(server, "/api/explain?name=www.example.org&type=AAAA&client=192.0.2.9&tcp=1", **MARK)
    found = json.loads(body)
    assert (status, found["outcome"], found["question"]) == (200, "reply", "www.example.org. AAAA from 192.0.2.9")
    assert found["steps"][0]["handler"] == "whoami"
    for query, problem in (
        ("", "name is missing"),
        ("name=a%20b", "one word each"),
        ("name=x&client=y", "y is no IP address"),
        ("name=x&address=dns://:1", "is not served"),
    ):
        status, _, body = get(server, f"/api/explain?{query}", **MARK)
        assert status == 400
        assert problem in json.loads(body)["problem"]


def test_queries_are_counted_once_beside_prometheus(serve: Serve) -> None:
    server = serve(".:{port} {\n prometheus 127.0.0.1:{port3}\n console 127.0.0.1:{port2}\n whoami\n}")
    for _ in range(3):
        server.query("example.org.")
    assert json.loads(get(server, "/api/status?sections=rates", **MARK)[2])["rates"]["queries"] == 3


def test_it_outlives_a_reload_and_goes_with_the_directive(serve: Serve) -> None:
    corefile = ".:{port} {\n console 127.0.0.1:{port2}\n whoami\n}"
    server = serve(corefile)
    server.reload(corefile + "\n# more\nb.test:{port} {\n whoami\n}")
    assert len(json.loads(get(server, "/api/status?sections=plan", **MARK)[2])["plan"]["servers"][0]["zones"]) == 2
