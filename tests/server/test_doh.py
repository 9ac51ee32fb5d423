"""DNS over HTTPS: whole servers, asked over real connections."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import dns.message
import dns.opcode
import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx
import pytest

from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.waiting import REPLY

TIMES = "timeouts {\n read 1s\n idle 2s\n write 1s\n }\n"
HOSTS = "acl own.test {\n allow net 127.0.0.0/8\n block\n }\nhosts {\n 192.0.2.1 a.test www.own.test\n ttl 77\n }\n"
QUERY = dns.message.make_query("a.test.", "A", id=0).to_wire()


def encoded(message: bytes) -> str:
    return base64.urlsafe_b64encode(message).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_certificates(tmp_path_factory.mktemp("doh"))
    blocks = ["https://.:{port} {\n timeouts {\n read 1m\n idle 1h\n }\n tls server.pem server.key\n prometheus 127.0.0.1:{port2}\n" + HOSTS + "}"]
    blocks += ["https://drop.test:{port} {\n tls server.pem server.key\n erratic {\n drop 1\n }\n}"]
    blocks += ["https://.:{port3} {\n timeouts {\n read 1m\n idle 1h\n }\n" + HOSTS + "}"]
    blocks += ["https://.:{port4} {\n" + TIMES + "tls server.pem server.key\n" + HOSTS + "}"]
    with Server(folder, "\n".join(blocks)) as running:
        yield running


@pytest.fixture(scope="module", params=["h2", "http/1.1", "clear"])
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    kind = request.param
    base = f"http://127.0.0.1:{server.ports['port3']}" if kind == "clear" else f"https://127.0.0.1:{server.port}"
    with httpx.Client(http2=kind == "h2", verify=client_context(server.folder), base_url=base, timeout=REPLY) as client:
        yield client


UPDATE = dns.message.make_query("a.test.", "A", id=0)
UPDATE.set_opcode(dns.opcode.UPDATE)


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", f"/dns-query?dns={encoded(QUERY)}", b"", 200),
        ("GET", f"/dns-query?a=b&dns={encoded(QUERY)}&c", b"", 200),
        ("GET", f"/dns%2Dquery?dns={encoded(QUERY)}", b"", 200),
        ("POST", "/dns-query", QUERY, 200),
        ("POST", "/dns-query?whatever", QUERY, 200),
        ("POST", "/dns-query", QUERY + bytes(60000), 200),
        ("GET", "/dns-query", b"", 400),
        ("GET", "/dns-query?dns=", b"", 400),
        ("GET", f"/dns-query?dns={encoded(QUERY)}=", b"", 400),
        ("GET", "/dns-query?dns=!!!", b"", 400),
        ("GET", f"/dns-query?dns={encoded(QUERY)}#x", b"", 400),
        ("GET", f"/dns-query?dns=%41{encoded(QUERY)[1:]}", b"", 200),
        ("GET", "/dns-query?dns=abcde", b"", 400),
        ("GET", f"/dns-query?dns={encoded(QUERY)}&dns={encoded(QUERY)}", b"", 400),
        ("GET", "/dns-query?dns=" + "A" * 60001, b"", 400),
        ("POST", "/dns-query", b"", 400),
        ("POST", "/dns-query", b"\1\2", 400),
        ("POST", "/dns-query", bytes(70000), 400),
        ("POST", "/dns-query", UPDATE.to_wire(), 400),
        ("POST", "/dns-query", dns.message.make_response(dns.message.make_query("a.test.", "A")).to_wire(), 400),
        ("PUT", "/dns-query", QUERY, 400),
        ("DELETE", "/dns-query", b"", 400),
        ("GET", "/", b"", 404),
        ("GET", "/dns-query/", b"", 404),
        ("POST", "/dns", QUERY, 404),
    ],
)
def test_statuses(client: httpx.Client, method: str, target: str, body: bytes, status: int) -> None:
    reply = client.request(method, "/", content=body or None, extensions={"target": target.encode()})
    assert reply.status_code == status
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.headers["date"].endswith(" GMT")
    if status == 200:
        assert dns.message.from_wire(reply.content).answer[0].to_text() == "a.test. 77 IN A 192.0.2.1"
        assert (reply.headers["content-type"], reply.headers["cache-control"]) == ("application/dns-message", "max-age=77")
    else:
        assert reply.text == {400: "invalid request\n", 404: "\n"}[status]
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(("name", "kept"), [("www.own.test.", "private, max-age=77"), ("no.own.test.", "private, max-age=5"), ("a.test.", "max-age=77")])
def test_what_depends_on_the_client_is_not_for_shared_caches(client: httpx.Client, name: str, kept: str) -> None:
    query = dns.message.make_query(name, "A", id=0).to_wire()
    assert client.post("/dns-query", content=query).headers["cache-control"] == kept
    assert client.get(f"/dns-query?dns={encoded(query)}").headers["cache-control"] == kept


def test_what_a_view_gives_is_not_for_shared_caches(serve: Callable[..., Server]) -> None:
    view = "https://.:{port} {\n view near {\n expr incidr(client_ip(), '127.0.0.1/32')\n }\n" + HOSTS + "}\n"
    server = serve(view + "https://.:{port} {\n whoami\n}")
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=REPLY) as client:
        assert client.post("/dns-query", content=QUERY).headers["cache-control"] == "private, max-age=77"


def test_head_has_no_body(client: httpx.Client) -> None:
    reply = client.head(f"/dns-query?dns={encoded(QUERY)}")
    assert (reply.status_code, reply.content) == (400, b"")


def test_fields_that_are_too_large(client: httpx.Client) -> None:
    reply = client.post("/dns-query", content=QUERY, headers={f"x-{i}": "v" * 1000 for i in range(20)})
    assert reply.status_code == 431


def test_a_query_that_is_dropped_and_the_metrics(server: Server) -> None:
    with httpx.Client(verify=client_context(server.folder), base_url=f"https://127.0.0.1:{server.port}", timeout=REPLY) as client:
        reply = client.post("/dns-query", content=dns.message.make_query("x.drop.test.", "A").to_wire())
        assert (reply.status_code, reply.text) == (500, "No response\n")
        sample = f'coredns_dns_https_responses_total{{server="https://:{server.port}",status="%d"}}'
        before = {status: server.metric(server.ports["port2"], sample % status) for status in (200, 404, 500)}
        client.post("/dns-query", content=QUERY)
        client.get("/other")
        client.post("/dns-query", content=dns.message.make_query("x.drop.test.", "A").to_wire())
        assert {status: server.metric(server.ports["port2"], sample % status) - before[status] for status in before} == {200: 1, 404: 1, 500: 1}
    requests = f'coredns_dns_requests_total{{family="1",proto="tcp",server="https://:{server.port}",type="A",view="",zone="."}}'
    assert server.metric(server.ports["port2"], requests) >= 1


def test_ages(serve: Callable[..., Server]) -> None:
    zone = "$ORIGIN z.test.\n@ 300 SOA ns h 1 2 3 4 60\n@ 400 NS ns\nns 7200 A 192.0.2.1\nlong 90000 A 192.0.2.2\nsub 500 NS elsewhere.test.\n"
    server = serve(
        "https://z.test:{port} {\n file db\n}\nhttps://w.test:{port} {\n whoami\n}",
        prepare=lambda folder: (folder / "db").write_text(zone),
    )
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=REPLY) as client:

        def age(name: str, kind: str = "A") -> str:
            reply = client.post("/dns-query", content=dns.message.make_query(name, kind).to_wire())
            field: str = reply.headers["cache-control"]
            return field.removeprefix("max-age=")

        names = [("ns.z.test.", "A"), ("long.z.test.", "A"), ("ns.z.test.", "AAAA"), ("no.z.test.", "A"), ("x.sub.z.test.", "A"), ("a.w.test.", "A")]
        assert [age(*name) for name in names] == ["400", "400", "60", "60", "5", "0"]
        assert age("a.elsewhere.", "A") == "5"  # REFUSED


# ---- what clients may not do ----


def connect(server: Server, *alpn: str, hurried: bool = False) -> ssl.SSLSocket:
    """``hurried``: to where `TIMES` hold, which a busy machine may not keep to at once."""
    for attempts_left in reversed(range(5 if hurried else 1)):
        plain = socket.create_connection(("127.0.0.1", server.ports["port4"] if hurried else server.port), REPLY)
        try:
            return client_context(server.folder, alpn=alpn).wrap_socket(plain)
        except OSError:
            plain.close()
            if not attempts_left:
                raise
    raise AssertionError


def answers(server: Server) -> bool:
    """Whether a client with a connection of its own is served."""
    with httpx.Client(verify=client_context(server.folder), timeout=REPLY) as client:
        return client.post(f"https://127.0.0.1:{server.port}/dns-query", content=QUERY).status_code == 200


def rest(connection: socket.socket) -> bytes:
    """What comes up to the end of the connection."""
    octets = b""
    try:
        while part := connection.recv(65536):
            octets += part
    except (ConnectionError, ssl.SSLError):
        pass
    return octets


class Two:
    """A client of HTTP/2 that says whatever it is told."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.connection = connection
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False))
        self.http.initiate_connection()
        self.seen: list[h2.events.Event] = []

    def request(self, stream: int, body: bytes = QUERY, end: bool = True, **fields: str) -> None:
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/dns-query"), *fields.items()]
        self.http.send_headers(stream, head)
        if body:
            self.http.send_data(stream, body, end_stream=end)

    def send(self) -> bool:
        try:
            self.connection.sendall(self.http.data_to_send())
        except OSError:
            return False
        return True

    def read(self, until: type[h2.events.Event]) -> h2.events.Event | None:
        """The first event of a kind; None when the connection ends before."""
        while True:
            for event in self.seen:
                if isinstance(event, until):
                    self.seen.remove(event)
                    return event
            try:
                data = self.connection.recv(65536)
            except (ConnectionError, ssl.SSLError):
                data = b""
            if not data:
                return None
            self.seen += self.http.receive_data(data)
            self.send()


def test_many_streams_at_once(server: Server) -> None:
    with connect(server, "h2") as connection:
        two = Two(connection)
        for number in range(1, 400, 2):
            two.request(number)
        two.send()
        ended = set()
        while len(ended) < 200:
            event = two.read(h2.events.StreamEnded)
            assert isinstance(event, h2.events.StreamEnded)
            ended.add(event.stream_id)


def test_each_reply_is_a_record(server: Server) -> None:
    """As over DoT. A call of `recv` gives one record."""
    with connect(server, "h2") as connection:
        two = Two(connection)
        for number in range(1, 60, 2):
            two.request(number)
        two.send()
        ended = 0
        while ended < 30:
            octets = connection.recv(65536)
            assert octets
            events = two.http.receive_data(octets)
            found = sum(isinstance(event, h2.events.StreamEnded) for event in events)
            assert found <= 1
            ended += found


def test_rapid_reset(server: Server) -> None:
    with connect(server, "h2") as connection:
        two = Two(connection)
        for number in range(1, 4001, 2):
            two.request(number, end=False)
            two.http.reset_stream(number)
            if number % 200 == 1 and not two.send():
                break
        end = two.read(h2.events.ConnectionTerminated)
        assert end is None or getattr(end, "error_code", None) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert rest(connection) == b""
    assert answers(server)


def test_a_flood_of_pings(server: Server) -> None:
    with connect(server, "h2") as connection:
        two = Two(connection)
        for _ in range(3000):
            two.http.ping(b"12345678")
        two.send()
        end = two.read(h2.events.ConnectionTerminated)
        assert end is None or getattr(end, "error_code", None) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
    assert answers(server)


@pytest.mark.parametrize("fragment", [b"", b"\0" * 1000])
def test_continuation_without_end(server: Server, fragment: bytes) -> None:
    with connect(server, "h2") as connection:
        two = Two(connection)
        two.send()
        frames = b"\0\0\1\1\0\0\0\0\1\x82" + (len(fragment).to_bytes(3, "big") + b"\x09\0\0\0\0\1" + fragment) * 500
        try:
            connection.sendall(frames)
        except OSError:
            pass
        assert two.read(h2.events.ConnectionTerminated) is not None or rest(connection) == b""
    assert answers(server)


def test_a_bomb_of_fields(server: Server) -> None:
    """One long field in the table, and thousands of references to it (RFC 7541 7.3)."""
    with connect(server, "h2") as connection:
        two = Two(connection)
        two.send()
        block = b"\x82\x87\x84\x41\x01a" + b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 12000
        connection.sendall(len(block).to_bytes(3, "big") + b"\1\5\0\0\0\1" + block)
        assert two.read(h2.events.ConnectionTerminated) is not None or rest(connection) == b""
    assert answers(server)


def test_a_client_that_opens_no_window_waits_alone(server: Server) -> None:
    with connect(server, "h2", hurried=True) as connection:
        two = Two(connection)
        two.http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
        for number in range(1, 100, 2):
            two.request(number)
        two.send()
        assert answers(server)
        assert isinstance(two.read(h2.events.StreamReset), h2.events.StreamReset)  # the write timeout


def test_a_stream_that_is_not_complete_is_reset_and_an_idle_connection_ends(server: Server) -> None:
    with connect(server, "h2", hurried=True) as connection:
        two = Two(connection)
        two.request(1, body=b"", end=False)
        two.request(3)
        two.send()
        ended = two.read(h2.events.StreamEnded)
        assert isinstance(ended, h2.events.StreamEnded)
        assert ended.stream_id == 3
        reset = two.read(h2.events.StreamReset)
        assert isinstance(reset, h2.events.StreamReset)
        assert (reset.stream_id, reset.error_code) == (1, h2.errors.ErrorCodes.CANCEL)
        end = two.read(h2.events.ConnectionTerminated)
        assert isinstance(end, h2.events.ConnectionTerminated)
        assert end.error_code == h2.errors.ErrorCodes.NO_ERROR
        assert rest(connection) == b""


def test_the_end_of_the_server_answers_open_streams(serve: Callable[..., Server]) -> None:
    corefile = "https://.:{port} {\n tls server.pem server.key\n erratic {\n drop 0\n delay 1 1s\n }\n}\n.:{port2} {\n whoami\n}"
    server = serve(corefile, prepare=write_certificates)
    with connect(server, "h2") as connection:
        two = Two(connection)
        two.request(1)
        two.send()
        two.http.ping(b"12345678")
        two.send()
        assert two.read(h2.events.PingAckReceived) is not None  # by then the request has been read
        server.process.terminate()
        assert isinstance(two.read(h2.events.StreamEnded), h2.events.StreamEnded)
        assert isinstance(two.read(h2.events.ConnectionTerminated), h2.events.ConnectionTerminated)
    assert server.exit_status() == 0


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"POST /dns-query HTT",
        b"POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: 30\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
)
def test_slow_clients_are_not_waited_for(server: Server, octets: bytes) -> None:
    with connect(server, hurried=True) as connection:
        connection.sendall(octets)
        assert rest(connection).startswith(b"HTTP/1.1 404" if octets.startswith(b"GET") else b"")


def test_a_request_that_drips(server: Server) -> None:
    """An octet now and then is no reason to wait for longer."""
    with connect(server, hurried=True) as connection:
        connection.settimeout(0.2)
        sent = 0
        for octet in b"GET /dns-query?dns=" + b"A" * 400:
            try:
                connection.sendall(bytes([octet]))
                sent += 1
                assert connection.recv(1) == b""
                break
            except TimeoutError:
                continue
            except (ConnectionError, ssl.SSLError):
                break
        assert sent < 300


def test_several_requests_in_one_piece(server: Server) -> None:
    with connect(server, "http/1.1") as connection:
        one = b"POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(QUERY) + QUERY
        connection.sendall(one * 20 + one.replace(b"host", b"connection: close\r\nhost"))
        assert rest(connection).count(b"HTTP/1.1 200 OK") == 21


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (f"GET http://a/dns-query?dns={encoded(QUERY)} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "200 OK"),
        (f"GET /dns-query?dns={encoded(QUERY)} HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET / HTTP/2.0\r\nhost: a\r\n\r\n", "505 HTTP Version Not Supported"),
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", "501 Not Implemented"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "400 Bad Request"),
        ("nothing of it\r\n\r\n", "400 Bad Request"),
        ("POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", "400 Bad Request"),
        ("POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length : 2\r\n\r\nab", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400 Bad Request"),
    ],
)
def test_requests_of_old_and_of_no_http(server: Server, octets: str, status: str) -> None:
    with connect(server, "http/1.1") as connection:
        connection.sendall(octets.encode())
        reply = rest(connection).decode("latin-1")
    assert reply.startswith(f"HTTP/1.1 {status}\r\n")
    assert status == "200 OK" or reply.endswith(f"\r\n\r\n{status}")


CHUNKED = b"POST /dns-query HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n" % len(QUERY) + QUERY + b"\r\n0\r\n\r\n"
WHOLE = b"POST /dns-query HTTP/1.1\r\nHost: a\r\nContent-Length:%d \r\n\r\n" % len(QUERY) + QUERY


@pytest.mark.parametrize("octets", [WHOLE, CHUNKED])
def test_requests_in_pieces_and_whole_on_one_connection(server: Server, octets: bytes) -> None:
    with connect(server, "http/1.1") as connection:
        for size in (1, 7, 40, 1000, 1):
            for at in range(0, len(octets), size):
                connection.sendall(octets[at : at + size])
            reply = b""
            while not reply.endswith(b"\x00\x04\xc0\x00\x02\x01"):
                part = connection.recv(1000)
                assert part
                reply += part
            assert reply.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize(("length", "text"), [(32, b"invalid request\n"), (33, b"400 Bad Request"), (90, b"400 Bad Request")])
def test_long_methods_in_pieces_and_whole(server: Server, length: int, text: bytes, size: int) -> None:
    """Beyond 32 octets of a method there is no request, however its octets come."""
    octets = b"M" * length + b" /dns-query HTTP/1.1\r\nhost: a\r\n\r\n"
    with connect(server, "http/1.1") as connection:
        with contextlib.suppress(OSError):  # of what comes behind the refusal
            for at in range(0, len(octets), size):
                connection.sendall(octets[at : at + size])
        reply = connection.recv(1000)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert reply.endswith(b"\r\n\r\n" + text)


def test_chunks_of_one_octet_that_come_octet_by_octet(server: Server) -> None:
    chunks = b"".join(b"1;x=y\r\n%c\r\n" % octet for octet in QUERY) + b"0\r\na: b\r\n\r\n"
    octets = b"POST /dns-query HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    with connect(server, "http/1.1") as connection:
        for size in (1, len(octets), 3):
            for at in range(0, len(octets), size):
                connection.sendall(octets[at : at + size])
            reply = b""
            while not reply.endswith(b"\x00\x04\xc0\x00\x02\x01"):
                part = connection.recv(1000)
                assert part
                reply += part
            assert reply.startswith(b"HTTP/1.1 200 OK\r\n")


def test_expectations_are_met(server: Server) -> None:
    with connect(server, "http/1.1") as connection:
        head = b"POST /dns-query HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(QUERY)
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(QUERY)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "octets", [b"\r\n\r\n", b"garbage\r\n\r\n", b"GET / HTTP/9\r\n\r\n", bytes(range(256)) * 10, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 30000]
)
def test_garbage_inside_of_tls(server: Server, octets: bytes) -> None:
    with connect(server) as connection:
        try:
            connection.sendall(octets)
        except OSError:
            pass
        assert not rest(connection).startswith(b"HTTP/1.1 2")
    assert answers(server)


def test_garbage_before_the_handshake(server: Server) -> None:
    for octets in (b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\x16\x03\x01\xff\xff" + bytes(70000)):
        with socket.create_connection(("127.0.0.1", server.port), REPLY) as connection:
            connection.sendall(octets)
            rest(connection)
    assert answers(server)


LIMITED = "https://.:{port} {\n tls server.pem server.key\n https {\n max_connections 2\n }\n" + HOSTS + "}\n"
LIMITED += "https://slow.test:{port} {\n tls server.pem server.key\n erratic {\n drop 0\n delay 1 3s\n }\n}"
SLOW = dns.message.make_query("a.slow.test.", "A", id=0).to_wire()


def test_the_limit_of_connections(serve: Callable[..., Server]) -> None:
    """A client waits while those before it are at work, and takes the place of one that is idle."""
    server = serve(LIMITED, prepare=write_certificates)
    with connect(server, "http/1.1") as first, connect(server, "http/1.1") as second:
        for connection in (first, second):
            connection.sendall(b"POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(SLOW) + SLOW)
        third = socket.create_connection(("127.0.0.1", server.port), REPLY)
        third.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client_context(server.folder).wrap_socket(third)
        for connection in (first, second):
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            assert answers(server)
    server.reload(LIMITED.replace("max_connections 2", "max_connections 0"))
    standing = [connect(server) for _ in range(5)]
    assert answers(server)
    for connection in standing:
        connection.close()


@pytest.mark.parametrize("hello", [True, False])
def test_silent_connections_keep_nobody_out(server: Server, hello: bool) -> None:
    """As many as there may be, with and without their handshakes."""
    silent = []
    try:
        for _ in range(220):
            if hello:
                silent.append(connect(server, "h2"))
            else:
                silent.append(socket.create_connection(("127.0.0.1", server.port), REPLY))
        assert answers(server)
    finally:
        for connection in silent:
            connection.close()


def test_the_end_of_the_server_waits_for_replies(serve: Callable[..., Server]) -> None:
    server = serve("https://.:{port} {\n erratic {\n drop 0\n delay 1 1s\n }\n}")
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as connection:
        connection.sendall(b"POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(QUERY) + QUERY)
        with socket.create_connection(("127.0.0.1", server.port), REPLY) as idle:
            idle.sendall(b"GET /other HTTP/1.1\r\nhost: a\r\n\r\n")  # by its reply the other one has been read
            assert idle.recv(1000).startswith(b"HTTP/1.1 404 ")
            server.process.terminate()
            assert rest(idle) == b""
        assert rest(connection).startswith(b"HTTP/1.1 200 ")
    assert server.exit_status() == 0
