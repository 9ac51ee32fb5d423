"""An upstream with other replies to AAAA queries than to all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.rdatatype

from fastdns.testing import Upstream
from tests.plugins.cache.scripted import Script


class Families(Script):
    """Says `six` to AAAA queries."""

    def __init__(self) -> None:
        super().__init__()
        self.six = Script()

    def __call__(self, query: dns.message.Message) -> dns.message.Message | None:
        if query.question[0].rdtype == dns.rdatatype.AAAA:
            return self.six(query)
        return super().__call__(query)


@contextmanager
def families() -> Iterator[tuple[Upstream, Families]]:
    script = Families()
    with Upstream(script) as running:
        yield running, script


def types(upstream: Upstream) -> list[str]:
    """Of the questions that came, in their order."""
    return [dns.rdatatype.to_text(query.question[0].rdtype) for query in upstream.seen]
