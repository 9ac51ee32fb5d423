"""Kinds of replies by their signatures: those that are not valid now make a reply one that is neither cached nor made smaller (RFC 4034 3.1.5)."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

import dns.flags
import dns.message
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import httpx
import pytest

from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import REPLY

DAY = 86400
RRSIG = dns.rdatatype.RRSIG
#: First label -> seconds from now to inception and to expiration (None: no rdata), DO in query and reply, whether it is a positive reply like others.
CASES: dict[str, tuple[tuple[int, int] | None, bool, bool]] = {
    "valid": ((-DAY, DAY), True, True),
    "expired": ((-2 * DAY, -DAY), True, False),
    "early": ((DAY, 2 * DAY), True, False),
    "empty": (None, True, False),  # CoreDNS reads missing octets as zero: expired in 1970
    "unasked": ((-2 * DAY, -DAY), False, True),
}


def rrsig(times: tuple[int, int] | None) -> bytes:
    """Rdata with the root as the signer."""
    if times is None:
        return b""
    inception, expiration = (int(time.time()) + seconds for seconds in times)
    return struct.pack("!HBBIIIH", dns.rdatatype.A, 8, 2, 60, expiration, inception, 4711) + b"\0" + bytes(64)


def answer(query: dns.message.Message) -> dns.message.Message:
    name = query.question[0].name
    times, do, _ = CASES[name.labels[0].decode()]
    reply = dns.message.make_response(query)
    signature = dns.rdata.GenericRdata(dns.rdataclass.IN, RRSIG, rrsig(times))
    reply.answer = [dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.1"), dns.rrset.from_rdata(name, 60, signature)]
    reply.authority = [dns.rrset.from_text("test.", 60, "IN", "NS", "ns.test.")]
    reply.use_edns(0, ednsflags=dns.flags.DO if do else 0)
    return reply


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream(answer) as upstream:
        yield upstream


@pytest.mark.parametrize("label", CASES)
def test_signatures_outside_their_time(serve: Callable[..., Server], upstream: Upstream, label: str) -> None:
    """DNS over HTTPS goes by the kind for its max-age, *minimal* for what it takes away, *cache* for what it keeps."""
    blocks = (("plain", ""), ("small", "minimal"), ("kept", "cache"))
    server = serve("".join(f"https://{zone}.test:{{port}} {{\n bind 127.0.0.1\n {plugin}\n forward . {upstream.address}\n}}\n" for zone, plugin in blocks))
    _, do, positive = CASES[label]
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=REPLY) as client:

        def ask(zone: str) -> httpx.Response:
            query = dns.message.make_query(f"{label}.{zone}.test.", "A", want_dnssec=do)
            return client.post("/dns-query", content=query.to_wire())

        assert ask("plain").headers["cache-control"] == ("max-age=60" if positive else "max-age=5")
        small = ask("small").content
        assert struct.unpack_from("!3H", small, 6)[1] == (0 if positive else 1)
        for _ in range(2):
            ask("kept")
    asked = [query for query in upstream.seen if query.question[0].name.to_text() == f"{label}.kept.test."]
    assert len(asked) == (1 if positive else 2)
