"""A server with *cache* in front of a scripted upstream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from fastdns.testing import Upstream
from tests.server import Server
from tests.waiting import LIMIT

Serve = Callable[..., Server]

SOA = "test. 60 IN SOA ns.test. admin.test. 1 2 3 4 9000"
#: Seconds that *forward* waits for a reply: so many that a slow machine's upstream is not asked again, and that other limits are told from this one.
UPSTREAM_PATIENCE = 10
BLOCK = "{zone}:{{port}} {{\n bind 127.0.0.1\n {cache}\n forward . {upstream} {{\n read_timeout " + f"{UPSTREAM_PATIENCE}s" + "\n }}\n}}\n"


class Script:
    """What the upstream says: by name, and by default one A record."""

    def __init__(self) -> None:
        #: Name -> (rcode, flags, answer, authority, additional), records as texts; None: no reply.
        self.said: dict[str, tuple[str, str, Sequence[str], Sequence[str], Sequence[str]] | None] = {}
        #: What it says of all other names; None: one A record.
        self.otherwise: tuple[str, str, Sequence[str], Sequence[str], Sequence[str]] | None = None
        #: Replies leave while it is set.
        self.going = threading.Event()
        self.going.set()

    def say(
        self,
        name: str,
        answer: Sequence[str] = (),
        authority: Sequence[str] = (),
        additional: Sequence[str] = (),
        rcode: str = "NOERROR",
        flags: str = "RA",
    ) -> None:
        self.said[name] = (rcode, flags, answer, authority, additional)

    def __call__(self, query: dns.message.Message) -> dns.message.Message | None:
        question = query.question[0]
        name = question.name.to_text().lower()
        said = self.said.get(name, self.otherwise or ("NOERROR", "RA", [f"{name} 300 IN A 192.0.2.1"], [], []))
        if said is None:
            return None
        self.going.wait(LIMIT)
        reply = dns.message.make_response(query)
        reply.set_rcode(dns.rcode.from_text(said[0]))
        reply.flags |= dns.flags.from_text(said[1])
        for section, texts in ((reply.answer, said[2]), (reply.authority, said[3]), (reply.additional, said[4])):
            section.extend(dns.rrset.from_text(*text.split(None, 4)) for text in texts)
        return reply


@contextmanager
def running(serve: Serve, cache: str | dict[str, str], *args: str) -> Iterator[tuple[Server, Upstream, Script]]:
    """One block with this cache, or one for each zone."""
    script = Script()
    blocks = {".": cache} if isinstance(cache, str) else cache
    with Upstream(script) as upstream:
        corefile = "".join(BLOCK.format(zone=zone, cache=lines, upstream=upstream.address) for zone, lines in blocks.items())
        try:
            yield serve(corefile, *args), upstream, script
        finally:
            script.going.set()


def texts(section: list[dns.rrset.RRset]) -> list[str]:
    return sorted(line for rrset in section for line in rrset.to_text().splitlines())


def ttls(reply: dns.message.Message) -> set[int]:
    return {rrset.ttl for section in (reply.answer, reply.authority, reply.additional) for rrset in section}


def asked(upstream: Upstream, name: str) -> int:
    """How many questions came for a name. A datagram that *forward* repeats, because the reply is slow to come, is the same question."""
    return len({query.id for query in upstream.seen if query.question[0].name.to_text().lower() == name})
