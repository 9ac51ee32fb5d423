"""Questions asked of a server over one TCP connection, and what is wrong with the replies."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from fastdns._wire import name_wire, records
from fastdns.bench.workload import Question
from tests.waiting import REPLY

#: Types whose rdata has names, where case does not count.
NAMED = (2, 5, 12, 33)


def replies(port: int, questions: Iterable[Question]) -> Iterator[tuple[Question, bytes]]:
    with socket.create_connection(("127.0.0.1", port), REPLY) as connection, connection.makefile("rwb") as stream:
        for question in questions:
            query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + name_wire(question.name) + question.type.to_bytes(2) + b"\0\1"
            stream.write(len(query).to_bytes(2) + query)
            stream.flush()
            yield question, stream.read(int.from_bytes(stream.read(2)))


def wrong(question: Question, reply: bytes) -> str:
    """What differs from the expected reply; empty: nothing."""
    rcode = reply[3] & 15
    if question.rcode is not None and rcode != question.rcode:
        return f"{question.name} {question.type}: rcode {rcode}, not {question.rcode}"
    found = [rdata for section, _, rrtype, _, _, rdata in records(reply) if section == 0 and rrtype == question.type]
    if question.answers is None:
        return ""
    if sorted(map(folded(question), found)) != sorted(map(folded(question), question.answers)):
        return f"{question.name} {question.type}: {sorted(found)}, not {sorted(question.answers)}"
    return ""


def folded(question: Question):
    return bytes.lower if question.type in NAMED else bytes


def all_wrong(port: int, questions: Iterable[Question]) -> list[str]:
    return [text for question, reply in replies(port, questions) if (text := wrong(question, reply))]
