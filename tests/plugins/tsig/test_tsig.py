"""tsig checks what is signed, asks for what has to be, and signs the replies; dnspython is at the other end."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.ANY.TSIG
import dns.tsig
import dns.zone
import pytest

from tests.plugins.transfer.test_transfer import PROVIDER
from tests.server import Server
from tests.waiting import LIMIT, REPLY

SECRET = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
OTHER = "X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus="
ALGORITHMS = ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]

COREFILE = """
a.test:{port} {
    bind 127.0.0.1
    debug
    errors
    tsig {
        secret key.a.test. NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=
        secret useless.a.test. no*base64
        require all
    }
    cache
    hosts {
        192.0.2.1 www.a.test
    }
}
b.test:{port} {
    bind 127.0.0.1
    tsig {
        secrets {dir}/keys
        require TXT AXFR
    }
    whoami
}
part.test:{port} {
    bind 127.0.0.1
    tsig in.part.test {
        require A
    }
    whoami
}
none.test:{port} {
    bind 127.0.0.1
    whoami
}
test:{port2} {
    bind 127.0.0.1
    tsig {
        secret big. X28hl0BOfAL5G0jsmJWSacrwn7YRm2f6U5brnzwWEus=
        require AXFR IXFR
    }
    transfer {
        to *
    }
    plugin {dir}/provider.py
}
notify.test:{port2} {
    bind 127.0.0.1
    tsig {
        require_opcode NOTIFY
    }
    whoami
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tsig")
    (folder / "provider.py").write_text(PROVIDER)
    (folder / "keys").write_text(f'key "key.b.test." {{\n  algorithm hmac-sha256;\n  secret "{OTHER}";\n}};\n')
    with Server(folder, COREFILE) as started:
        yield started


def key(name: str, secret: str = SECRET, algorithm: str = "hmac-sha256") -> dns.tsig.Key:
    return dns.tsig.Key(name, secret, algorithm)


def signed(name: str, kind: str = "A", with_key: dns.tsig.Key | None = None, **options: object) -> dns.message.Message:
    request = dns.message.make_query(name, kind, **options)  # type: ignore[arg-type]
    request.use_tsig(with_key or key("key.a.test."))
    return request


def exchange(server: Server, octets: bytes, port: str = "port") -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(REPLY)
        sock.connect(("127.0.0.1", server.ports[port]))
        sock.send(octets)
        return sock.recv(65535)


def tsig_of(octets: bytes) -> tuple[dns.message.Message, dns.rdtypes.ANY.TSIG.TSIG | None]:
    """The reply without a check of its signature, and the signature."""
    message = dns.message.from_wire(octets, keyring=False)
    return message, message.tsig[0] if message.tsig else None


# ---- good signatures ----


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithms(server: Server, algorithm: str, tcp: bool) -> None:
    for _ in range(2):  # the second from the cache
        reply = server.send(signed("www.a.test.", with_key=key("key.a.test.", algorithm=algorithm)), tcp=tcp)
        assert reply.had_tsig  # dnspython has checked it
        assert [rrset.to_text() for rrset in reply.answer] == ["www.a.test. 3600 IN A 192.0.2.1"]
        assert reply.tsig[0].fudge == 300


def test_letter_case_of_the_key(server: Server) -> None:
    assert server.send(signed("www.a.test.", with_key=key("KEY.a.Test."))).had_tsig


def test_edns_comes_before_the_signature(server: Server) -> None:
    request = signed("www.a.test.", use_edns=0, payload=1232, want_dnssec=True)
    octets = exchange(server, request.to_wire())
    reply = dns.message.from_wire(octets, keyring=request.keyring, request_mac=request.mac)
    assert reply.had_tsig
    assert (reply.edns, reply.payload, reply.ednsflags & dns.flags.DO) == (0, 1232, dns.flags.DO)


def test_keys_of_other_blocks_of_the_address(server: Server) -> None:
    assert server.send(signed("www.a.test.", with_key=key("key.b.test.", OTHER))).had_tsig
    assert server.send(signed("in.part.test.", with_key=key("key.b.test.", OTHER))).had_tsig
    with pytest.raises(dns.tsig.PeerBadKey):
        server.send(signed("x.notify.test.", with_key=key("key.b.test.", OTHER)), port=server.ports["port2"])


def test_what_nobody_answers_is_signed(server: Server) -> None:
    reply = server.send(signed("none.a.test."))
    assert reply.had_tsig
    assert reply.rcode() == dns.rcode.SERVFAIL


def test_an_error_from_below_is_logged(serve) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    errors\n    tsig {\n        secret k. " + SECRET + "\n    }\n    cache\n}\n")
    reply = server.send(signed("example.org.", with_key=key("k.")))
    assert (reply.rcode(), reply.had_tsig) == (dns.rcode.SERVFAIL, True)
    server.wait_log(r"^\[ERROR\] plugin/tsig: request handler returned an error: plugin/cache: no next plugin found$")
    assert "plugin/errors" not in server.log()


# ---- bad ones ----


@pytest.mark.parametrize("name", ["www.a.test.", "x.b.test."])
def test_an_unknown_key(server: Server, name: str) -> None:
    request = signed(name, with_key=key("other.a.test."))
    reply, tsig = tsig_of(exchange(server, request.to_wire()))
    assert (reply.rcode(), dns.flags.to_text(reply.flags), reply.answer) == (dns.rcode.NOTAUTH, "QR RD", [])
    assert tsig is not None
    assert (tsig.error, tsig.mac, tsig.time_signed, tsig.fudge, tsig.original_id) == (17, b"", 0, 300, request.id)


@pytest.mark.parametrize(
    "wrong",
    [
        key("key.a.test.", OTHER),
        key("useless.a.test."),
        key("key.a.test.", algorithm="hmac-sha256-128"),
        key("key.a.test.", algorithm="hmac-md5.sig-alg.reg.int."),
    ],
    ids=["secret", "no base64", "cut", "md5"],
)
def test_a_bad_mac(server: Server, wrong: dns.tsig.Key) -> None:
    reply, tsig = tsig_of(exchange(server, signed("www.a.test.", with_key=wrong).to_wire()))
    assert reply.rcode() == dns.rcode.NOTAUTH
    assert tsig is not None
    assert (tsig.error, tsig.mac, tsig.algorithm) == (16, b"", wrong.algorithm)


def test_every_octet_is_signed(server: Server) -> None:
    """Whatever is changed behind the id, no changed request is ever taken for signed."""
    request = signed("www.a.test.", use_edns=0)
    octets = request.to_wire()
    generator = random.Random(5)
    answered = 0
    for at in range(2, len(octets)):
        changed = bytearray(octets)
        changed[at] ^= 1 << generator.randrange(8)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.05)
            sock.connect(("127.0.0.1", server.port))
            sock.send(changed)
            try:
                reply = sock.recv(65535)
            except TimeoutError:  # no query any more
                continue
        answered += 1
        rcode = tsig_of(reply)[0].rcode()
        # Letter case is not signed (RFC 8945 4.3.3): a changed one in the key's or algorithm's name is no change.
        assert rcode != dns.rcode.NOERROR or bytes(changed).lower() == octets.lower(), (at, reply)
    assert answered > 50


@pytest.mark.parametrize("skew", [-1000, 1000])
def test_another_time(server: Server, skew: int, monkeypatch: pytest.MonkeyPatch) -> None:
    request = signed("www.a.test.")
    client_time = int(time.time()) + skew
    monkeypatch.setattr(time, "time", lambda: client_time)
    octets = request.to_wire()
    monkeypatch.undo()
    received = exchange(server, octets)
    reply, tsig = tsig_of(received)
    assert reply.rcode() == dns.rcode.NOTAUTH
    assert tsig is not None
    assert (tsig.error, tsig.time_signed, len(tsig.other)) == (18, client_time, 6)
    assert abs(int.from_bytes(tsig.other, "big") - time.time()) < LIMIT
    with pytest.raises(dns.tsig.PeerBadTime):  # and not BadSignature: the error itself is signed
        dns.message.from_wire(received, keyring=request.keyring, request_mac=request.mac)


def test_the_fudge_counts(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    request = dns.message.make_query("www.a.test.", "A")
    request.use_tsig(key("key.a.test."), fudge=5000)
    client_time = int(time.time()) - 2000
    monkeypatch.setattr(time, "time", lambda: client_time)
    octets = request.to_wire()
    monkeypatch.undo()
    assert tsig_of(exchange(server, octets))[0].rcode() == dns.rcode.NOERROR


def test_a_signature_that_is_not_the_last_record(server: Server) -> None:
    octets = bytearray(signed("www.a.test.").to_wire())
    octets[11] += 1
    octets += b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
    assert exchange(server, bytes(octets))[3] & 15 == dns.rcode.FORMERR


@pytest.mark.parametrize("cut", [1, 6, 10, 20, 38])
def test_a_signature_that_is_cut(server: Server, cut: int) -> None:
    """Its length says so: no record of that type."""
    octets = bytearray(signed("www.a.test.").to_wire())
    at = bytes(octets).index(struct.pack("!HHI", dns.rdatatype.TSIG, dns.rdataclass.ANY, 0)) + 8
    octets[at : at + 2] = (int.from_bytes(octets[at : at + 2], "big") - cut).to_bytes(2, "big")
    assert exchange(server, bytes(octets[:-cut]))[3] & 15 == dns.rcode.FORMERR


# ---- what has to be signed ----


@pytest.mark.parametrize(
    ("name", "kind", "port", "rcode"),
    [
        ("www.a.test.", "A", "port", dns.rcode.REFUSED),
        ("www.a.test.", "TYPE65280", "port", dns.rcode.REFUSED),
        ("x.b.test.", "A", "port", dns.rcode.NOERROR),
        ("x.b.test.", "TXT", "port", dns.rcode.REFUSED),
        ("x.part.test.", "A", "port", dns.rcode.NOERROR),
        ("in.part.test.", "A", "port", dns.rcode.REFUSED),
        ("x.in.part.test.", "A", "port", dns.rcode.REFUSED),
        ("x.none.test.", "A", "port", dns.rcode.NOERROR),
        ("x.notify.test.", "A", "port2", dns.rcode.NOERROR),
    ],
)
def test_unsigned(server: Server, name: str, kind: str, port: str, rcode: dns.rcode.Rcode) -> None:
    reply = server.query(name, kind, port=server.ports[port])
    assert (reply.rcode(), reply.had_tsig) == (rcode, False)


def test_unsigned_is_told(server: Server) -> None:
    start = len(server.log())
    server.query("www.a.test.", "AAAA")
    server.wait_log(r"^\[DEBUG\] plugin/tsig: rejecting 'AAAA' request without TSIG$", start=start)


def test_opcodes(server: Server) -> None:
    notify = dns.message.make_query("x.notify.test.", "SOA")
    notify.set_opcode(dns.opcode.NOTIFY)
    assert server.send(notify, port=server.ports["port2"]).rcode() == dns.rcode.REFUSED
    notify.use_tsig(key("big.", OTHER))
    assert server.send(notify, port=server.ports["port2"]).had_tsig


@pytest.mark.parametrize(("name", "secret"), [("key.a.test.", SECRET), ("key.zzz.", SECRET)])
def test_outside_of_the_zones_nothing_is_checked(server: Server, name: str, secret: str) -> None:
    for question in ("x.none.test.", "x.part.test."):
        reply, tsig = tsig_of(exchange(server, signed(question, with_key=key(name, secret)).to_wire()))
        assert (reply.rcode(), tsig) == (dns.rcode.NOERROR, None)


# ---- transfers ----


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_transfer_of_many_messages(server: Server, algorithm: str) -> None:
    """Each message is signed over the one before it."""
    query = signed("big.test.", "AXFR", key("big.", OTHER, algorithm))
    count = 0
    for message in dns.query.xfr(
        "127.0.0.1", "big.test.", port=server.ports["port2"], keyring=query.keyring, keyname="big.", keyalgorithm=algorithm, lifetime=LIMIT
    ):
        assert message.had_tsig
        count += 1
    assert count > 50


def test_a_transfer_taken_by_dnspython(server: Server) -> None:
    zone = dns.zone.Zone("some.test.")
    query = dns.message.make_query("some.test.", "AXFR")
    query.use_tsig(key("big.", OTHER))
    dns.query.inbound_xfr("127.0.0.1", zone, query, port=server.ports["port2"], lifetime=LIMIT)
    assert len(zone.nodes) == 601


@pytest.mark.parametrize("with_key", [None, key("big.", SECRET), key("key.a.test.")])
def test_no_transfer_without_the_key(server: Server, with_key: dns.tsig.Key | None) -> None:
    query = dns.message.make_query("open.test.", "AXFR")
    if with_key is not None:
        query.use_tsig(with_key)
    with socket.create_connection(("127.0.0.1", server.ports["port2"]), LIMIT) as sock:
        octets = query.to_wire()
        sock.sendall(struct.pack("!H", len(octets)) + octets)
        size = struct.unpack("!H", sock.recv(2, socket.MSG_WAITALL))[0]
        reply, _ = tsig_of(sock.recv(size, socket.MSG_WAITALL))
    assert reply.rcode() == (dns.rcode.REFUSED if with_key is None else dns.rcode.NOTAUTH)
    assert reply.answer == []
