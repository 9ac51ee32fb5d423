"""Lines ``test "NAME TYPE [from IP]" expects ANSWER…``: queries, and the answers that a configuration must give."""

from __future__ import annotations

import struct
from collections.abc import Callable
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import TYPE_CHECKING, NamedTuple

from fastdns._wire import name_wire, records
from fastdns.corefile.errors import CorefileError
from fastdns.protocol.header import FLAG_RD, flags_rcode, message_flags
from fastdns.protocol.parameters import (
    RCODES,
    TYPE_A,
    TYPE_ANY,
    TYPE_OPT,
    rcode_text,
    type_number,
    type_text,
)
from fastdns.zonefile.presentation import rdata_text, rdata_wire

if TYPE_CHECKING:
    from fastdns.server.explain import Explained

__all__ = ["VALUES", "Expectation", "Question", "answers", "expectations", "parse_question", "verify"]

#: Key of the expectations of a block in `fastdns.setup.config.Config.values`.
VALUES = "test"

CLIENT = bytes((127, 0, 0, 1))

#: Words in an expectation for results without a message.
OUTCOMES = ("DROPPED", "TIMEOUT", "NODATA")

#: A function that runs a query in wire form, as if a client had sent it over UDP or TCP.
Ask = Callable[[bytes, bytes], "Explained"]


class Question(NamedTuple):
    """A question and the address of its client."""

    name: str
    qtype: int
    client: bytes = CLIENT

    def packet(self) -> bytes:
        """A query with RD and an OPT of 4,096 octets."""
        return (
            struct.pack("!6H", 0, FLAG_RD, 1, 0, 0, 1)
            + name_wire(self.name)
            + struct.pack("!2H", self.qtype, 1)
            + b"\0"
            + struct.pack("!HHIH", TYPE_OPT, 4096, 0, 0)
        )

    def __str__(self) -> str:
        return f"{self.name} {type_text(self.qtype)}" + (f" from {_address(self.client)}" if self.client != CLIENT else "")


class Expectation(NamedTuple):
    """A question, and the answers that it must have: rdata as text, or one of a response code, NODATA, DROPPED and TIMEOUT."""

    question: Question
    answers: tuple[str, ...]
    file: str
    line: int

    def failure(self, found: list[str]) -> str:
        """The difference to these answers as text; "" when they are as expected."""
        wanted = sorted(_canonical(self.question.qtype, text) for text in self.answers)
        if sorted(found) == wanted:
            return ""
        return f'{self.file}:{self.line} - test "{self.question}": expected {" ".join(wanted)}, got {" ".join(found)}'


def parse_question(text: str) -> Question:
    """``NAME [TYPE] [from IP]``, in the order of the words. Raises ValueError."""
    words = text.split()
    client = CLIENT
    if len(words) > 2 and words[-2].lower() == "from":
        try:
            client = inet_pton(AF_INET6 if ":" in words[-1] else AF_INET, words[-1])
        except OSError:
            raise ValueError(f"not an IP address: {words[-1]}") from None
        words = words[:-2]
    if not 1 <= len(words) <= 2:
        raise ValueError(f"not 'NAME TYPE [from IP]': {text}")
    name_wire(words[0])
    return Question(words[0] if words[0].endswith(".") else f"{words[0]}.", type_number(words[1]) if len(words) == 2 else TYPE_A, client)


def answers(explained: Explained, qtype: int) -> list[str]:
    """The answers as an expectation has them: rdata of the answers with the queried type, or else a word for the result."""
    if explained.outcome != "reply":
        return ["REFUSED" if explained.outcome == "refused" else explained.outcome.upper()]
    rcode = flags_rcode(message_flags(explained.message))
    if rcode:
        return [rcode_text(rcode)]
    found = [rdata_text(rtype, rdata) for section, _, rtype, _, _, rdata in records(explained.message) if section == 0 and qtype in (rtype, TYPE_ANY)]
    return sorted(found) or ["NODATA"]


def expectations(values: dict[str, list[Expectation]]) -> list[Expectation]:
    """The expectations of a block."""
    return values.get(VALUES, [])


def verify(wanted: list[Expectation], ask: Ask) -> list[str]:
    """Run all queries; returns a text for each one that fails."""
    failures = []
    for expectation in wanted:
        question = expectation.question
        failure = expectation.failure(answers(ask(question.packet(), question.client), question.qtype))
        if failure:
            failures.append(failure)
    return failures


def check_answer(question: Question, text: str) -> None:
    """Raises CorefileError when an expected answer cannot be an answer to the question."""
    try:
        _canonical(question.qtype, text)
    except ValueError as error:
        raise CorefileError(str(error)) from None


def _canonical(qtype: int, text: str) -> str:
    """An expected answer in the form of `answers`. Raises ValueError."""
    if text.upper() in OUTCOMES or text.upper() in RCODES.values():
        return text.upper()
    return rdata_text(qtype, rdata_wire(qtype, text)) if qtype != TYPE_ANY else text


def _address(octets: bytes) -> str:
    return inet_ntop(AF_INET6 if len(octets) == 16 else AF_INET, octets)
