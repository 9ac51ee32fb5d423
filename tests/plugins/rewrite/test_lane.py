"""The same rules, native and written in Python: random rules of names and TTLs, one upstream, equal answers."""

from __future__ import annotations

import random

import dns.message
import dns.name
import dns.rrset

from fastdns.testing import Upstream

#: rewrite in Python, on presentation forms, for rules in a file beside it: kind, from, to; the first that matches counts.
PLUGIN = """
import json
import pathlib

from fastdns._wire import name_text, name_wire
from fastdns.plugin import Plugin
from fastdns.query import Record

RULES = json.loads((pathlib.Path(__file__).parent / "rules.json").read_text())


def renamed(kind, source, to, name):
    if kind == "exact":
        return to if name == source else None
    if kind == "prefix":
        return to + name[len(source):] if name.startswith(source) else None
    if kind == "suffix":
        return name[: -len(source)] + to if name.endswith(source) else None
    return name.replace(source, to) if source in name else None


class Rewrite(Plugin):
    async def serve(self, query, next):
        for kind, source, to in RULES:
            new = renamed(kind, source, to, query.name)
            if new is not None:
                break
        else:
            return await next(query)
        answer = await next(query, name=new, qtype=query.qtype)
        if answer.failed:
            return query.fail(answer.rcode, answer.error)

        def back(wire):
            text = name_text(wire)
            if kind == "suffix":
                return name_wire(text[: -len(to)] + source) if text.endswith(to) else wire
            if text == new or text.endswith("." + new):
                return name_wire(text[: len(text) - len(new)] + query.name)
            return wire

        records = [
            Record(record.qtype, back(record.rdata) if record.qtype in (2, 5, 12) else record.rdata, record.ttl, back(record.owner))
            for _, record in answer.records
        ]
        return query.reply(*records, rcode=answer.rcode, authoritative=False)


def setup(controller):
    controller.next()
    controller.remaining_args()
    return Rewrite()
"""

LABELS = ("a", "b", "aa", "ab", "x-y", "www")


def answer(query: dns.message.Message) -> dns.message.Message:
    """An address, aliases and name servers at and below the name asked for."""
    reply = dns.message.make_response(query)
    name = query.question[0].name
    if len(name) > 3:
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", "CNAME", "sub." + name.to_text()))
        reply.answer.append(dns.rrset.from_text("sub." + name.to_text(), 60, "IN", "A", "192.0.2.1"))
    else:
        reply.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.2"))
    return reply


def rules(source: random.Random) -> list[tuple[str, str, str]]:
    def name(least: int) -> str:
        return ".".join(source.choice(LABELS) for _ in range(source.randint(least, 2))) + "."

    found = []
    for _ in range(6):
        kind = source.choice(("exact", "prefix", "suffix", "substring"))
        dot = "." if kind == "suffix" and source.random() < 0.7 else ""
        found.append((kind, dot + name(1), dot + name(1)))
    return found


def test_native_and_python_agree(serve) -> None:
    import json

    source = random.Random(11)
    chosen = rules(source)
    native = "\n".join(f"  rewrite name {kind} {old} {new} answer auto" for kind, old, new in chosen)
    with Upstream(answer) as upstream:
        forward = f"  forward . {upstream.address}\n"

        def prepare(folder) -> None:
            (folder / "rewriting.py").write_text(PLUGIN)
            (folder / "rules.json").write_text(json.dumps(chosen))

        server = serve(
            ".:{port} {\n  bind 127.0.0.1\n" + native + "\n" + forward + "}\n.:{port2} {\n  bind 127.0.0.1\n  plugin {dir}/rewriting.py\n" + forward + "}\n",
            prepare=prepare,
        )
        renamed = 0
        for _ in range(300):
            name = ".".join(source.choice(LABELS) for _ in range(source.randint(1, 4))) + "."
            replies = [server.query(name, "A", port=int(server.ports[port])) for port in ("port", "port2")]
            texts = [sorted(line for rrset in reply.answer for line in rrset.to_text().splitlines()) for reply in replies]
            assert texts[0] == texts[1], (name, chosen)
            assert replies[0].rcode() == replies[1].rcode()
            renamed += upstream.seen[-1].question[0].name != dns.name.from_text(name)
        assert renamed > 50
