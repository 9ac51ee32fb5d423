"""DNS over gRPC: whole servers, asked by gRPC's own client, and by one of HTTP/2 that does what that would not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import dns.message
import dns.opcode
import dns.rcode
import dns.tsig
import dns.tsigkeyring
import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest

from tests.certificates import write_certificates
from tests.grpc_client import METHOD, Client, client, packet
from tests.server import Server
from tests.waiting import REPLY

HOSTS = "hosts {\n 192.0.2.1 a.test\n ttl 77\n }\n"
KEY = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
ZONE = "$ORIGIN big.test.\n@ 60 SOA ns h 1 60 60 60 60\n@ 60 NS ns\n" + "".join(f'n 60 TXT "{i:0200}"\n' for i in range(200))
QUERY = dns.message.make_query("a.test.", "A", id=0x1234).to_wire()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = write_certificates(tmp_path_factory.mktemp("grpc"))
    (folder / "big").write_text(ZONE)
    times = "timeouts {\n read 1s\n idle 2s\n write 1s\n }\n"
    blocks = ["grpc://.:{port} {\n" + times + "prometheus 127.0.0.1:{port2}\n" + HOSTS + "}", "grpc://drop.test:{port} {\n erratic {\n drop 1\n }\n}"]
    blocks += ["grpc://big.test:{port} {\n file big\n}"]
    blocks += ["grpc://signed.test:{port} {\n tsig {\n secret key. " + KEY + "\n require all\n }\n whoami\n}"]
    blocks += ["grpc://.:{port3} {\n tls server.pem server.key\n" + HOSTS + "}"]
    with Server(folder, "\n".join(blocks)) as running:
        yield running


@pytest.fixture(scope="module", params=["clear", "tls"])
def asked(server: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    tls = request.param == "tls"
    with client(server.ports["port3" if tls else "port"], server.folder if tls else None) as made:
        yield made


def test_answers(asked: Client) -> None:
    reply = asked.query("a.test", want_dnssec=True)
    assert [rrset.to_text() for rrset in reply.answer] == ["a.test. 77 IN A 192.0.2.1"]
    assert asked.query("none.test").rcode() == dns.rcode.SERVFAIL
    padded = dns.message.make_query("a.test.", "A", use_edns=0, pad=16000)
    assert dns.message.from_wire(asked.call(padded.to_wire(max_size=65535))).id == padded.id


def test_replies_are_as_large_as_over_tcp(server: Server) -> None:
    with client(server.port) as asked:
        reply = asked.query("n.big.test", "TXT")
    assert len(reply.answer[0]) == 200
    assert not reply.flags & dns.flags.TC


def raw(name: str = "a.test.", opcode: int = 0, counts: tuple[int, ...] = (1, 0, 0, 0), flags: int = 0, rest: bytes = b"") -> bytes:
    octets = bytearray(dns.message.make_query(name, "A").to_wire())
    octets[2] = octets[2] & 0x87 | opcode << 3 | flags
    octets[4:12] = b"".join(count.to_bytes(2, "big") for count in counts)
    return bytes(octets) + rest


@pytest.mark.parametrize(
    ("message", "status", "text"),
    [
        (b"", "UNKNOWN", "dns: buffer size too small"),
        (b"\0" * 11, "UNKNOWN", "dns: buffer size too small"),
        (raw(flags=0x80), "UNKNOWN", "dns request rejected"),
        (raw(opcode=dns.opcode.UPDATE), "UNKNOWN", "dns request rejected"),
        (raw(opcode=dns.opcode.STATUS), "UNKNOWN", "dns request rejected"),
        (raw(counts=(0, 0, 0, 0)), "UNKNOWN", "dns request rejected"),
        (raw(counts=(2, 0, 0, 0)), "UNKNOWN", "dns request rejected"),
        (raw(counts=(1, 2, 0, 0)), "UNKNOWN", "dns request rejected"),
        (raw(counts=(1, 0, 2, 0)), "UNKNOWN", "dns request rejected"),
        (raw(counts=(1, 0, 0, 3)), "UNKNOWN", "dns request rejected"),
        (raw(counts=(1, 0, 0, 1), rest=b"\0\0"), "UNKNOWN", "dns: malformed message"),
        (raw() + bytes(65536), "RESOURCE_EXHAUSTED", None),
        (raw().ljust(65536, b"\0"), "RESOURCE_EXHAUSTED", None),
    ],
)
def test_what_is_refused(server: Server, message: bytes, status: str, text: str | None) -> None:
    with client(server.port) as asked:
        told = asked.failure(message)
    assert told[0] == status
    assert told[1] == text or text is None


def test_a_message_that_is_too_long_only_for_dns(server: Server) -> None:
    """The limit of calls has room for field and length, and those may be written in fewer octets."""
    with client(server.port) as asked:
        assert asked.failure(b"\x0a\x80\x80\x04" + bytes(65536), serialized=True)[0] == "RESOURCE_EXHAUSTED"
        assert asked.failure(packet(raw().ljust(65535, b"\0"))[:-1], serialized=True)[0] == "INTERNAL"
        assert dns.message.from_wire(asked.call(raw().ljust(65535, b"\0"))).rcode() == 0


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"\x12\x03abc" + packet(QUERY), None),  # unknown fields
        (b"\x18\x80\x01" + packet(QUERY) + b"\x25abcd\x29abcdefgh", None),
        (packet(b"x") + packet(QUERY), None),  # the last one counts
        (b"\x0a\xff", "INTERNAL"),
        (b"\x0a\x05ab", "INTERNAL"),
        (b"\x0b", "INTERNAL"),
        (b"\x80" * 11, "INTERNAL"),
        (b"", "UNKNOWN"),
    ],
)
def test_protobuf(server: Server, octets: bytes, status: str | None) -> None:
    with client(server.port) as asked:
        if status is None:
            assert dns.message.from_wire(asked.call(octets, serialized=True)).id == 0x1234
        else:
            assert asked.failure(octets, serialized=True)[0] == status


def test_other_methods(server: Server) -> None:
    with client(server.port) as asked:
        assert asked.failure(QUERY, method="/coredns.dns.DnsService/Other") == ("UNIMPLEMENTED", "unknown method Other for service coredns.dns.DnsService")
        assert asked.failure(QUERY, method="/other/Query") == ("UNIMPLEMENTED", "unknown service other")


def test_a_dropped_query_comes_back(server: Server) -> None:
    with client(server.port) as asked:
        message = dns.message.make_query("x.drop.test", "A").to_wire()
        assert asked.call(message) == message


def test_signatures(server: Server) -> None:
    ring = dns.tsigkeyring.from_text({"key.": KEY})
    with client(server.port) as asked:
        signed = dns.message.make_query("x.signed.test", "A")
        signed.use_tsig(ring, "key.")
        reply = dns.message.from_wire(asked.call(signed.to_wire()), keyring=ring, request_mac=signed.mac)
        assert reply.had_tsig
        assert reply.rcode() == dns.rcode.NOERROR
        assert asked.query("x.signed.test").rcode() == dns.rcode.REFUSED
        wrong = dns.message.make_query("x.signed.test", "A")
        wrong.use_tsig(dns.tsigkeyring.from_text({"key.": "AAAA" + KEY[4:]}), "key.")
        octets = asked.call(wrong.to_wire())
        assert octets[3] & 15 == dns.rcode.NOTAUTH


def test_metrics(server: Server) -> None:
    sample = f'coredns_dns_requests_total{{family="1",proto="tcp",server="grpc://:{server.port}",type="MX",view="",zone="."}}'
    before = server.metric(server.ports["port2"], sample)
    with client(server.port) as asked:
        asked.query("a.test", "MX")
    assert server.metric(server.ports["port2"], sample) == before + 1


def test_reload_keeps_connections(serve: Callable[..., Server]) -> None:
    server = serve("grpc://.:{port} {\n" + HOSTS + "}")
    with client(server.port) as asked:
        assert asked.query("a.test").answer[0].ttl == 77
        server.reload("grpc://.:{port} {\n" + HOSTS.replace("77", "78") + "}")
        assert asked.query("a.test").answer[0].ttl == 78


def test_the_end_of_the_server_waits_for_replies(serve: Callable[..., Server]) -> None:
    server = serve("grpc://.:{port} {\n erratic {\n drop 0\n delay 1 1s\n }\n}")
    with client(server.port) as asked:
        call = asked.channel.unary_unary(METHOD, packet, None).future(QUERY, timeout=REPLY)
        second = asked.channel.unary_unary("/other/method", packet, None).future(QUERY, timeout=REPLY)
        assert second.exception() is not None  # by then the other one has been read
        server.process.terminate()
        assert packet(b"")[:1] == call.result()[:1]
    assert server.exit_status() == 0


# ---- what clients may not do ----


class Raw:
    """A client of HTTP/2 that says whatever it is told."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), REPLY)
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False, header_encoding="utf-8"))
        self.http.initiate_connection()
        self.seen: list[h2.events.Event] = []

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    def begin(self, stream: int, body: bytes = b"", end: bool = False, method: str = "POST", kind: str = "application/grpc", **fields: str) -> None:
        head = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", METHOD), ("content-type", kind), ("te", "trailers"), *fields.items()]
        self.http.send_headers(stream, head, end_stream=end and not body)
        if body:
            self.http.send_data(stream, body, end_stream=end)

    def send(self) -> None:
        self.connection.sendall(self.http.data_to_send())

    def read(self, kind: type[h2.events.Event]) -> h2.events.Event | None:
        """The first event of a kind; None when the connection ends before."""
        while True:
            for event in self.seen:
                if isinstance(event, kind):
                    self.seen.remove(event)
                    return event
            try:
                data = self.connection.recv(65536)
                self.seen += self.http.receive_data(data)
                self.connection.sendall(self.http.data_to_send())
            except ConnectionError:
                data = b""
            if not data:
                return None

    def fields(self, kind: type[h2.events.Event] = h2.events.ResponseReceived) -> dict[str, str]:
        return dict(self.read(kind).headers)  # type: ignore[union-attr,arg-type]


BODY = b"\0" + len(packet(QUERY)).to_bytes(4, "big") + packet(QUERY)


def test_a_call_in_octets(server: Server) -> None:
    with Raw(server.port) as raw_client:
        raw_client.begin(1, BODY, end=True)
        raw_client.send()
        head = raw_client.fields()
        assert (head[":status"], head["content-type"]) == ("200", "application/grpc")
        data = raw_client.read(h2.events.DataReceived)
        assert isinstance(data, h2.events.DataReceived)
        assert data.data[:1] == b"\0"
        assert int.from_bytes(data.data[1:5], "big") == len(data.data) - 5
        assert raw_client.fields(h2.events.TrailersReceived) == {"grpc-status": "0"}
        settings = raw_client.http.remote_settings
        assert settings.max_concurrent_streams == 256


@pytest.mark.parametrize(
    ("body", "options", "status", "grpc_status"),
    [
        (BODY, {"method": "GET"}, "405", None),
        (BODY, {"kind": "application/json"}, "415", None),
        (BODY, {"kind": "application/grpc+proto"}, "200", None),
        (b"\1" + BODY[1:], {}, "200", "13"),
        (BODY, {"grpc-encoding": "gzip"}, "200", "12"),
        (BODY, {"grpc-encoding": "identity"}, "200", None),
        (b"\2" + BODY[1:], {}, "200", "13"),
        (BODY + BODY, {}, "200", "13"),
        (BODY[:-1], {}, "200", "13"),
        (BODY[:3], {}, "200", "13"),
        (b"", {}, "200", "13"),
    ],
)
def test_calls_that_are_none(server: Server, body: bytes, options: dict[str, str], status: str, grpc_status: str | None) -> None:
    with Raw(server.port) as raw_client:
        raw_client.begin(1, body, end=True, **options)
        raw_client.send()
        head = raw_client.fields()
    assert head[":status"] == status
    assert head.get("grpc-status") == grpc_status


def test_a_call_that_stalls_is_reset(server: Server) -> None:
    with Raw(server.port) as raw_client:
        raw_client.begin(1, BODY[:20])
        raw_client.send()
        reset = raw_client.read(h2.events.StreamReset)
        assert isinstance(reset, h2.events.StreamReset)
        assert raw_client.read(h2.events.ConnectionTerminated) is not None  # and then the idle time is over


def test_a_client_that_says_nothing(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as connection:
        connection.sendall(b"PRI * HTTP")
        connection.settimeout(REPLY)
        while connection.recv(4096):
            pass


def test_rapid_reset(server: Server) -> None:
    with Raw(server.port) as raw_client:
        try:
            for number in range(1, 4001, 2):
                raw_client.begin(number)
                raw_client.http.reset_stream(number)
                if number % 200 == 1:
                    raw_client.send()
        except OSError:
            return
        end = raw_client.read(h2.events.ConnectionTerminated)
        assert end is None or getattr(end, "error_code", None) == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


LIMITED = "grpc://.:{port} {\n grpc_server {\n max_streams 3\n max_connections 2\n }\n" + HOSTS + "}\n"
LIMITED += "grpc://slow.test:{port} {\n erratic {\n drop 0\n delay 1 3s\n }\n}"
SLOW = packet(dns.message.make_query("a.slow.test.", "A").to_wire())


def test_limits(serve: Callable[..., Server]) -> None:
    server = serve(LIMITED)
    with Raw(server.port) as first, Raw(server.port) as second:
        for each in (first, second):
            each.begin(1, b"\0" + len(SLOW).to_bytes(4, "big") + SLOW, end=True)
            each.send()
            assert each.read(h2.events.SettingsAcknowledged)  # the server has read what was sent before it
        with Raw(server.port) as third:  # which waits while those before it are at work
            third.begin(1, BODY, end=True)
            third.send()
            third.connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                third.connection.recv(1)
            third.connection.settimeout(REPLY)
            for each in (first, second):
                assert each.fields()[":status"] == "200"
                assert each.http.remote_settings.max_concurrent_streams == 3
            assert third.fields()[":status"] == "200"
    server.reload(LIMITED.replace("max_streams 3\n max_connections 2", "max_streams 0\n max_connections 0"))
    standing = [Raw(server.port) for _ in range(5)]
    for each in standing:
        each.begin(1, BODY, end=True)
        each.send()
        assert each.fields()[":status"] == "200"
        assert each.http.remote_settings.max_concurrent_streams == 2**31 - 1
        each.connection.close()


@pytest.mark.parametrize(
    ("timeout", "status"),
    [("1H", "0"), ("300m", "4"), ("300000u", "4"), ("1n", "4"), ("99999999H", "0"), ("", "13"), ("1", "13"), ("123456789m", "13")],
)
def test_deadlines(serve_slow: Server, timeout: str, status: str) -> None:
    """A call whose time is over is told so; its query goes on."""
    with Raw(serve_slow.port) as raw_client:
        raw_client.begin(1, b"\0" + len(SLOW).to_bytes(4, "big") + SLOW, end=True, **{"grpc-timeout": timeout})
        raw_client.send()
        head = raw_client.fields()
        assert (head.get("grpc-status") or raw_client.fields(h2.events.TrailersReceived)["grpc-status"]) == status


@pytest.fixture(scope="module")
def serve_slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("slow"), LIMITED.replace("max_connections 2", "max_connections 0").replace("3s", "1s")) as running:
        yield running
