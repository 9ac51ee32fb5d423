"""Label selectors (kubernetes.io/docs/concepts/overview/working-with-objects/labels): checked at set-up, matched here only for manifests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# Compiled where a Corefile has a selector.
NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
WORD = r"\s*(?:(==|!=|=|!|<|>|\(|\)|,)|([^\s=!<>(),]+))"
EXPECTED = "in, notin, =, ==, !=, gt, lt"


class SelectorError(ValueError):
    """The text is no label selector; the message is apimachinery's."""


class Requirement(NamedTuple):
    """One condition on the labels of an object."""

    key: str
    #: exists, absent, in, notin, gt or lt
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        try:
            number, bound = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "absent":
            return "!" + self.key
        if self.operator in ("gt", "lt"):
            return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == 'in' else '!='}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"


class Parser:
    """Tokens to requirements."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, bool]] = []
        at = 0
        token = re.compile(WORD)
        text = text.rstrip()
        while at < len(text):
            match = token.match(text, at)
            if match is None:  # only white space is left
                break
            self.tokens.append((match[1] or match[2], bool(match[2])))
            at = match.end()

    def peek(self) -> tuple[str, bool]:
        return self.tokens[0] if self.tokens else ("", False)

    def take(self) -> tuple[str, bool]:
        return self.tokens.pop(0) if self.tokens else ("", False)

    def selector(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self.tokens:
            found.append(self.requirement())
            text, word = self.take()
            if text == "" and not word:
                break
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            if not self.tokens:
                raise SelectorError("found '', expected: identifier after ','")
        return found

    def requirement(self) -> Requirement:
        text, word = self.take()
        absent = text == "!" and not word
        if absent:
            text, word = self.take()
        if not word:
            raise SelectorError(f"unable to parse requirement: found '{text}', expected: identifier")
        check_key(text)
        following, is_word = self.peek()
        if absent or (not is_word and following in ("", ",")):
            return Requirement(text, "absent" if absent else "exists")
        self.take()
        if is_word and following in ("in", "notin"):
            return Requirement(text, following, self.values())
        if not is_word and following in ("=", "==", "!=", "<", ">"):
            value = self.value()
            if following in "<>":
                if not re.fullmatch(r"[-+]?\d+", value):
                    why = "for 'Gt', 'Lt' operators, the value must be an integer"
                    raise SelectorError(f'unable to parse requirement: values[0][{text}]: Invalid value: "{value}": {why}')
                return Requirement(text, "gt" if following == ">" else "lt", (value,))
            return Requirement(text, "notin" if following == "!=" else "in", (value,))
        raise SelectorError(f"unable to parse requirement: found '{following}', expected: {EXPECTED}")

    def value(self) -> str:
        text, word = self.peek()
        if word:
            self.take()
            return check_value(text)
        if text in ("", ","):
            return ""
        raise SelectorError(f"unable to parse requirement: found '{text}', expected: identifier")

    def values(self) -> tuple[str, ...]:
        text, word = self.take()
        if word or text != "(":
            raise SelectorError(f"unable to parse requirement: found '{text}' expected: '('")
        found: list[str] = []
        while True:
            text, word = self.take()
            if word:
                found.append(check_value(text))
                text, word = self.take()
            else:
                found.append("")
            if text == ")" and not word:
                return tuple(sorted(set(found)))
            if text != "," or word:
                raise SelectorError(f"unable to parse requirement: found '{text}', expected: ',', or ')'")


def check_key(key: str) -> None:
    """Qualified names: PREFIX/NAME with at most 253 and 63 characters."""
    prefix, slash, name = key.rpartition("/")
    good = re.fullmatch(NAME, name) and len(name) <= 63
    if slash:
        good = good and re.fullmatch(PREFIX, prefix) and len(prefix) <= 253
    if not good:
        raise SelectorError(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must consist of alphanumeric characters,'
            " '-', '_' or '.', and must start and end with an alphanumeric character"
        )


def check_value(value: str) -> str:
    """Label values: at most 63 characters."""
    if value and (len(value) > 63 or not re.fullmatch(NAME, value)):
        raise SelectorError(
            f'unable to parse requirement: values[0]: Invalid value: "{value}": a valid label must be an empty string or consist of'
            " alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        )
    return value


class Selector(NamedTuple):
    """Requirements that must all hold; none match everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Selector:
        """SelectorError for what is no selector."""
        return cls(tuple(sorted(Parser(text).selector(), key=lambda one: one.key)))

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return all(one.matches(labels or {}) for one in self.requirements)

    def and_exists(self, key: str) -> Selector:
        """This one, and a label that must be there."""
        return Selector((*self.requirements, Requirement(key, "exists")))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))
