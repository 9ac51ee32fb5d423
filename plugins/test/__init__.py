"""test: queries whose answers a configuration is held to, when it is checked and before a reload takes it up."""

from __future__ import annotations

from fastdns.server.expectations import VALUES, Expectation, check_answer, parse_question
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)


def setup(controller: Controller) -> None:
    """``test "NAME TYPE [from IP]" expects ANSWER...``"""
    controller.config.values[VALUES] = parse(controller)


def parse(controller: Controller) -> list[Expectation]:
    """The expectations in their order. Raises CorefileError."""
    found = []
    while controller.next():
        file, line = controller.file(), controller.line()
        words = controller.args(1)
        # The question may stand in quotes, or as words of its own.
        place = next((index for index, word in enumerate(words) if word.lower() == "expects"), len(words))
        if place in (0, len(words)) or place == len(words) - 1:
            raise controller.err("not 'test \"NAME TYPE [from IP]\" expects ANSWER...'")
        try:
            question = parse_question(" ".join(words[:place]))
        except ValueError as error:
            raise controller.err(str(error)) from None
        for answer in words[place + 1 :]:
            check_answer(question, answer)
        found.append(Expectation(question, tuple(words[place + 1 :]), file, line))
    return found
