"""DNS over HTTP/3: whole servers, asked over real connections. RFC 8484, RFC 9114."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import dns.flags
import dns.message
import pytest
from aioquic.h3.connection import ErrorCode, FrameType, encode_frame

from tests.certificates import write_certificates
from tests.quic import Client, Closed, Response, WebClient, query
from tests.server import Server

TLS = "tls server.pem server.key"
COREFILE = "https3://.:{port} {\n bind 127.0.0.1\n " + TLS + "\n hosts {\n 192.0.2.1 a.test\n ttl 77\n }\n}"
QUESTION = query("a.test.")
ENCODED = base64.urlsafe_b64encode(QUESTION).rstrip(b"=").decode()
UPDATE = QUESTION[:2] + b"\x28" + QUESTION[3:]


def with_directive(text: str) -> str:
    return COREFILE.replace(" hosts", f" {text}\n hosts")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that leave no trace in it."""
    folder = write_certificates(tmp_path_factory.mktemp("doh3"))
    with (folder / "zone").open("w") as zone:
        zone.write("$ORIGIN z.test.\n@ 60 SOA ns hostmaster 1 60 60 60 60\n@ 60 NS ns\nns 60 A 192.0.2.53\n")
        zone.writelines(f'big 60 TXT "{i:03}{"x" * 40}"\n' for i in range(60))
    corefile = (
        COREFILE.replace("https3://.:", "https3://a.test:")
        + "\nhttps3://z.test:{port} {\n bind 127.0.0.1\n "
        + TLS
        + "\n file zone\n}\nhttps3://drop.test:{port} {\n bind 127.0.0.1\n "
        + TLS
        + "\n acl {\n drop\n }\n whoami\n}\nhttps3://own.test:{port} {\n bind 127.0.0.1\n "
        + TLS
        + "\n acl {\n allow net 127.0.0.1\n block\n }\n hosts {\n 192.0.2.2 www.own.test\n ttl 78\n }\n}"
    )
    with Server(folder, corefile) as started:
        started.wait_started()
        yield started


def address(response: Response) -> str:
    assert response.status == 200
    return str(dns.message.from_wire(response.body).answer[0][0])


@pytest.mark.parametrize("early", [False, True])
def test_get_and_post(server: Server, early: bool) -> None:
    with WebClient(server.port) as client:
        posted = client.fetch(body=QUESTION)
        got = client.response(client.request("GET", f"/dns-query?dns={ENCODED}", end=not early))  # a GET's end is not waited for
        other_id = client.fetch(body=b"\x12\x34" + QUESTION[2:])
    assert address(posted) == address(got) == "192.0.2.1"
    assert posted.fields["content-type"] == "application/dns-message"
    assert posted.fields["cache-control"] == "max-age=77"
    assert posted.fields["content-length"] == str(len(posted.body))
    assert posted.fields["date"].endswith(" GMT")
    assert other_id.body[:2] == b"\x12\x34"


def test_what_depends_on_the_client_is_not_for_shared_caches(server: Server) -> None:
    with WebClient(server.port) as client:
        assert client.fetch(body=query("www.own.test.")).fields["cache-control"] == "private, max-age=78"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "/", b"", 404, b"\n"),
        ("POST", "/dns-query/", QUESTION, 404, b"\n"),
        ("GET", f"/dns%2Dquery?dns={ENCODED}", b"", 200, None),
        ("GET", f"/dns-query?a=b&dns={ENCODED}", b"", 200, None),
        ("GET", "/dns-query", b"", 400, b"invalid request\n"),
        ("GET", f"/dns-query?dns={ENCODED}==", b"", 400, b"invalid request\n"),
        ("GET", f"/dns-query?dns={ENCODED}&dns={ENCODED}", b"", 400, b"invalid request\n"),
        ("PUT", "/dns-query", QUESTION, 400, b"invalid request\n"),
        ("DELETE", "/dns-query", b"", 400, b"invalid request\n"),
        ("POST", "/dns-query", b"", 400, b"invalid request\n"),
        ("POST", "/dns-query", QUESTION[:11], 400, b"invalid request\n"),
        ("POST", "/dns-query", QUESTION[:2] + b"\x80" + QUESTION[3:], 400, b"invalid request\n"),
        ("POST", "/dns-query", UPDATE, 400, b"invalid request\n"),
        ("POST", "/dns-query", QUESTION.ljust(65535, b"\0"), 200, None),
        ("POST", "/dns-query", QUESTION.ljust(65537, b"\0"), 400, b"invalid request\n"),
        ("POST", "/dns-query", query("x.drop.test."), 500, b"No response\n"),
        ("POST", "/dns-query", query("nowhere.test."), 200, None),
    ],
)
def test_statuses(server: Server, method: str, path: str, body: bytes, status: int, text: bytes | None) -> None:
    with WebClient(server.port) as client:
        response = client.fetch(method, path, body)
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"  # the connection goes on
    assert response.status == status
    if text is not None:
        assert response.body == text


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_long_is_not_waited_for(server: Server, declared: bool) -> None:
    with WebClient(server.port) as client:
        fields = [(b"content-length", b"70000")] if declared else None
        stream = client.request("POST", "/dns-query", bytes(5 if declared else 65537), fields, end=False)
        assert client.response(stream).status == 400
        assert client.stops[stream] == ErrorCode.H3_NO_ERROR


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([(b"x-%d" % i, b"") for i in range(300)], 200),
        ([(b"x-%d" % i, b"") for i in range(480)], 431),
        ([(b"x", b"\xff" * 16400)], 431),
        ([(b"x", b"a" * 30000)], 431),
    ],
)
def test_headers_have_16_kibibytes(server: Server, fields: list[tuple[bytes, bytes]], status: int) -> None:
    with WebClient(server.port) as client:
        stream = client.request("POST", "/dns-query", QUESTION, fields)
        assert client.response(stream).status == status
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"


def test_headers_of_more_than_twice_that_end_the_connection(server: Server) -> None:
    with WebClient(server.port) as client:
        client.request("POST", "/dns-query", QUESTION, [(b"x", b"a" * 60000)])
        assert client.wait_closed().code == ErrorCode.H3_EXCESSIVE_LOAD


def test_sizes_are_those_of_udp(server: Server) -> None:
    with WebClient(server.port) as client:
        small = client.fetch(body=query("big.z.test.", "TXT"))
        large = client.fetch(body=query("big.z.test.", "TXT", use_edns=0, payload=4096))
    assert len(small.body) <= 512
    assert dns.message.from_wire(small.body).flags & dns.flags.TC
    assert len(dns.message.from_wire(large.body).answer[0]) == 60


def test_requests_at_once(server: Server) -> None:
    with WebClient(server.port) as client:
        streams = [client.request(body=QUESTION) for _ in range(200)]
        assert {address(client.response(stream)) for stream in streams} == {"192.0.2.1"}


def test_a_malformed_request_is_reset_alone(server: Server) -> None:
    with WebClient(server.port) as client:
        waiting = client.request(body=QUESTION[:5], end=False)
        stream = client.quic.get_next_available_stream_id()
        head = client.http._encode_headers(stream, [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b"Upper Case", b"")])
        client.write(stream, encode_frame(FrameType.HEADERS, head), True)
        client.pump(lambda: stream in client.resets)
        assert client.resets[stream] == ErrorCode.H3_MESSAGE_ERROR
        client.http.send_data(waiting, QUESTION[5:], end_stream=True)
        assert address(client.response(waiting)) == "192.0.2.1"


def test_what_follows_a_response_is_ignored(server: Server) -> None:
    with WebClient(server.port) as client:
        stream = client.request("GET", "/nowhere", end=False)
        client.quic.send_stream_data(stream, encode_frame(FrameType.DATA, b"more"))
        trailers = client.http._encode_headers(stream, [(b"a", b"b")])
        client.write(stream, encode_frame(FrameType.HEADERS, trailers), True)
        assert client.response(stream).status == 404
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"
        assert stream not in client.responses


def test_data_before_headers_ends_the_connection(server: Server) -> None:
    with WebClient(server.port) as client:
        assert client.http is not None
        client.write(client.quic.get_next_available_stream_id(), encode_frame(FrameType.DATA, b"a"), True)
        assert client.wait_closed().code == ErrorCode.H3_FRAME_UNEXPECTED


def test_cancelled_requests(server: Server) -> None:
    with WebClient(server.port) as client:
        for _ in range(300):  # more than may be open at a time
            stream = client.request(body=QUESTION[:5], end=False)
            client.quic.reset_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
            client.quic.stop_stream(stream, ErrorCode.H3_REQUEST_CANCELLED)
            client.push()
            client.pump(lambda stream=stream: stream in client.resets)
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"


def test_another_protocol_is_refused(server: Server) -> None:
    with Client(server.port, alpn="doq", wait=False) as client:
        client.push()
        assert client.wait_closed().code == 0x178  # the alert no_application_protocol


def test_a_resumed_session_asks_once_its_handshake_is_done(server: Server) -> None:
    with WebClient(server.port) as first:
        first.fetch(body=QUESTION)
        first.pump(lambda: first.tickets)
    with WebClient(server.port, ticket=first.tickets[0], wait=False) as resumed:
        assert address(resumed.fetch(body=QUESTION)) == "192.0.2.1"
        assert resumed.handshake is not None
        assert (resumed.handshake.session_resumed, resumed.handshake.early_data_accepted) == (True, False)


def test_a_stalled_request_is_given_up(serve: Callable[..., Server]) -> None:
    server = serve(with_directive("timeouts {\n read 1s\n idle 1h\n }"), prepare=write_certificates)
    with WebClient(server.port) as client:
        stalled = client.request(body=QUESTION[:5], end=False)
        without_head = client.quic.get_next_available_stream_id()
        client.write(without_head, b"\1")
        client.pump(lambda: stalled in client.resets and without_head in client.resets)
        assert client.resets[stalled] == client.resets[without_head] == ErrorCode.H3_REQUEST_INCOMPLETE
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"


def test_connections_above_the_limit_are_closed(serve: Callable[..., Server]) -> None:
    server = serve(with_directive("https3 {\n max_connections 3\n }\n timeouts {\n idle 1h\n }"), prepare=write_certificates)
    with ExitStack() as stack:
        clients = [stack.enter_context(WebClient(server.port)) for _ in range(3)]
        with WebClient(server.port) as one_too_many:
            closed: Closed = one_too_many.wait_closed()
            assert (closed.code, closed.reason) == (ErrorCode.H3_EXCESSIVE_LOAD, "too many connections")
        assert {address(client.fetch(body=QUESTION)) for client in clients} == {"192.0.2.1"}


@pytest.mark.parametrize(("directive", "streams"), [("https3 {\n max_streams 7\n }", 7), ("https3 {\n max_streams 0\n }", 100), ("https3", 256), ("", 256)])
def test_streams(serve: Callable[..., Server], directive: str, streams: int) -> None:
    server = serve(with_directive(directive), prepare=write_certificates)
    with WebClient(server.port) as client:
        assert client.quic._remote_max_streams_bidi == streams
        assert address(client.fetch(body=QUESTION)) == "192.0.2.1"


def test_no_field_of_headers_is_kept_to_be_repeated(server: Server) -> None:
    """QPACK's dynamic table would let a few octets become kilobytes."""
    with WebClient(server.port) as client:
        client.pump(lambda: client.http.received_settings)
        assert client.http.received_settings == {0x1: 0, 0x7: 0, 0x6: 32768}


def test_responses_are_counted(serve: Callable[..., Server]) -> None:
    server = serve(with_directive("prometheus 127.0.0.1:{port2}"), prepare=write_certificates)
    with WebClient(server.port) as client:
        for path in ("/dns-query", "/dns-query", "/"):
            client.fetch(path=path, body=QUESTION)
        client.fetch("GET")
        client.fetch(fields=[(b"x", b"a" * 20000)])
    page = server.get(int(server.ports["port2"]), "/metrics")
    label = f'server="https3://127.0.0.1:{server.port}"'
    for status, count in (("200", 2), ("404", 1), ("400", 1), ("431", 1)):
        assert f'coredns_dns_https3_responses_total{{{label},status="{status}"}} {count}\n' in page
    assert f'coredns_dns_requests_total{{family="1",proto="udp",{label},type="A",view="",zone="."}} 2\n' in page


def test_the_end_of_the_server_closes_connections(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    with WebClient(server.port) as client:
        client.fetch(body=QUESTION)
        assert server.stop() == 0
        assert client.wait_closed().code == ErrorCode.H3_NO_ERROR


def test_without_a_certificate_it_cannot_be_served(serve: Callable[..., Server]) -> None:
    server = serve("https3://.:{port} {\n whoami\n}", wait=False)
    assert server.exit_status() == 1
    assert "DoH3 requires TLS, no TLS config found" in server.log()
