"""header: sets and clears flags in the headers of queries and replies."""

from __future__ import annotations

from typing import NamedTuple

from fastdns.corefile import CorefileError
from fastdns.protocol.header import FLAG_AA, FLAG_RA, FLAG_RD
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["FLAGS", "Rules", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: Bits of a header (RFC 1035 4.1.1).
FLAGS = {"aa": FLAG_AA, "ra": FLAG_RA, "rd": FLAG_RD}


class Rules(NamedTuple):
    """What becomes of the flags: those in ``clear`` go, then those in ``set`` are added."""

    set: int = 0
    clear: int = 0

    def __or__(self, more: object) -> Rules:
        """These rules, and then others: the later one decides about a flag."""
        if not isinstance(more, Rules):
            return NotImplemented
        return Rules((self.set & ~more.clear) | more.set, (self.clear & ~more.set) | more.clear)


def setup(controller: Controller) -> None:
    """``header { query|response set|clear FLAG... }``"""
    query, response = parse(controller)
    from fastdns.plugins.header._header import HeaderHandler

    controller.config.add_handler(HeaderHandler("header", tuple(query), tuple(response)))


def parse(controller: Controller) -> tuple[Rules, Rules]:
    """The rules for queries and for replies of the first occurrence that has any. Raises CorefileError."""
    while controller.next():
        query, response = Rules(), Rules()
        while controller.next_block():
            selector = controller.val().lower()
            if selector not in ("query", "response"):
                raise CorefileError(f"setting up rule: invalid selector={selector} should be query or response")
            try:
                rules = _rules(controller.remaining_args())
            except ValueError as error:
                raise CorefileError(f"setting up rule: {error}") from None
            if selector == "query":
                query |= rules
            else:
                response |= rules
        if any(query) or any(response):
            return query, response
    raise controller.arg_err()


def _rules(words: list[str]) -> Rules:
    if not words:
        raise ValueError("no flag action provided")
    if len(words) < 2:
        raise ValueError("invalid length for flags, at least one should be provided")
    action, *flags = (word.lower() for word in words)
    if action not in ("set", "clear"):
        raise ValueError(f"unknown flag action={action}, should be set or clear")
    bits = 0
    for flag in flags:
        if flag not in FLAGS:
            raise ValueError(f"unknown/unsupported flag={flag}")
        bits |= FLAGS[flag]
    return Rules(set=bits) if action == "set" else Rules(clear=bits)
