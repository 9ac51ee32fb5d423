"""The rules of rewrite as the Corefile has them, in CoreDNS's grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastdns.corefile import CorefileError
from fastdns.corefile.duration import parse_uint
from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import normalize
from fastdns.expression import regex
from fastdns.expression.matcher import Regex
from fastdns.expression.regex import LENGTH_MAX
from fastdns.protocol.parameters import CLASSES, RCODES, TYPES
from fastdns.walk.metadata import is_label

__all__ = ["Answer", "Option", "Rule", "parse_rule"]

MATCHES = ("exact", "prefix", "suffix", "substring", "regex")
#: Groups of an expression that are known, the whole match among them (expression/matcher.pxd).
GROUPS_MAX = 128
VARIABLES = ("qname", "qtype", "client_ip", "server_ip", "client_port", "server_port", "protocol")


@dataclass(frozen=True)
class Answer:
    """``answer name|value FROM TO``."""

    #: Of "name" or "value".
    what: str
    pattern: Regex
    to: str


@dataclass(frozen=True)
class Part:
    """Of what a regular expression puts in place of a name: a literal, then a group (-1: none) or the value of a label ("": none)."""

    literal: str
    group: int = -1
    label: str = ""


@dataclass(frozen=True)
class Option:
    """``edns0``: what becomes of one option of the request."""

    #: Of "local", "nsid" or "subnet".
    kind: str
    #: Of "set", "append", "replace" or "unset".
    action: str
    code: int
    data: bytes = b""
    #: One of VARIABLES or a label of metadata, in place of data.
    variable: str = ""
    #: Bits of the client's address for IPv4 and IPv6.
    bits: tuple[int, int] = (0, 0)
    revert: bool = False


@dataclass(frozen=True)
class Rule:
    """One directive."""

    #: Of "name", "type", "class", "ttl", "rcode", "cname" or "edns0".
    field: str
    #: No rule after it is looked at.
    stop: bool = True
    #: One of MATCHES, where the rule looks at a name.
    match: str = ""
    source: str = ""
    to: str = ""
    pattern: Regex | None = None
    #: What `to` is made of, where it has labels of metadata.
    parts: tuple[Part, ...] = ()
    #: Names and values of the answer go back by themselves.
    auto: bool = False
    answers: tuple[Answer, ...] = ()
    #: Numbers: types, classes or response codes, from and to; least and greatest TTL.
    numbers: tuple[int, int] = (0, 0)
    option: Option | None = None
    #: FILE:LINE of the directive.
    place: str = ""


def parse_rule(words: list[str]) -> Rule:
    """The rule of a directive's words. Raises CorefileError."""
    if not words:
        raise CorefileError("no rule type specified for rewrite")
    mode, rest = words[0].lower(), words
    if mode in ("stop", "continue"):
        if len(words) < 2:
            raise CorefileError(f"{mode} rule must begin with a rule type")
        rest = words[1:]
    kind, arguments, stop = rest[0].lower(), rest[1:], mode != "continue"
    if kind == "answer":
        raise CorefileError("response rewrites must begin with a name rule")
    if kind in ("class", "type") and len(arguments) != 2:
        raise CorefileError(f"{kind} rules must have exactly two arguments")
    parsers = {
        "name": _name, "class": _class, "type": _type, "edns0": _edns0, "ttl": _ttl, "cname": _cname, "rcode": _rcode,
    }  # fmt: skip
    if kind not in parsers:
        raise CorefileError(f"invalid rule type {quoted(words[0])}")
    return parsers[kind](stop, arguments)


def doubt(rule: Rule) -> str:
    """What is probably a mistake in a rule that is valid, "" for nothing: a group that its expression does not have stays in the name as it is written."""
    targets = [(rule.to, rule.pattern)] if rule.field in ("name", "cname") and not rule.parts else []
    for to, pattern in [*targets, *((answer.to, answer.pattern) for answer in rule.answers)]:
        for number in re.findall(r"\{(\d+)\}", to):
            if pattern is None:
                return f"{{{number}}} stays as it is: only rules of `regex` have groups"
            if int(number) > pattern.groups:
                return f"{{{number}}} stays as it is: the expression has {pattern.groups} groups"
    return ""


# ---- names ----


def _name(stop: bool, words: list[str]) -> Rule:
    if len(words) < 2:
        raise CorefileError("too few arguments for a name rule")
    match, source, to = ("exact", *words) if len(words) == 2 else (words[0].lower(), words[1], words[2])
    labels = words[3:4] == ["metadata"]
    if labels and match != "regex":
        raise CorefileError("metadata is only supported for regex name rules")
    rest = words[4:] if labels else words[3:]
    auto, answers = _answers(match, rest) if rest else (False, ())
    if match not in MATCHES:
        raise CorefileError(f"name rule supports only exact, prefix, suffix, substring, and regex name matching, received: {match}")
    if match == "regex":
        pattern = _pattern(source, "" if labels else to)
        parts = _parts(to if to.endswith(".") else f"{to}.", pattern.groups) if labels else ()
        return Rule("name", stop, match, source, normalize(to), pattern, parts, auto, answers)
    source, to = normalize(source), normalize(to)
    if match == "exact":
        _pattern(to, source)  # as CoreDNS does, which refuses a target that is no regular expression
        auto = True
    return Rule("name", stop, match, source, to, auto=auto, answers=answers)


def _answers(match: str, words: list[str]) -> tuple[bool, tuple[Answer, ...]]:
    """``answer auto|name FROM TO|value FROM TO``, repeated; after the first the word `answer` may be left out."""
    if len(words) < 2:
        raise CorefileError(f"invalid arguments for {match} rule")
    auto, found, at = False, list[Answer](), 0
    while at < len(words):
        if at == 0 and words[at] != "answer":
            raise CorefileError(f"exceeded the number of arguments for a non-answer rule argument for {match} rule")
        at += words[at] == "answer"
        if at == len(words):
            raise CorefileError(f"type missing for answer rule for {match} rule")
        what = words[at]
        at += 1
        if what == "auto":
            auto = True
            continue
        if what not in ("name", "value"):
            raise CorefileError(f"invalid type {quoted(what)} for answer rule for {match} rule")
        if len(words) - at < 2:
            raise CorefileError(f"{what} answer rule for {match} rule: 2 arguments required")
        try:
            found.append(Answer(what, _pattern(words[at], words[at + 1]), normalize(words[at + 1])))
        except CorefileError as error:
            raise CorefileError(f"{what} answer rule for {match} rule: {error}") from None
        at += 2
    if auto and any(answer.what == "name" for answer in found):
        raise CorefileError("auto name answer rule cannot be combined with explicit name anwer rules")
    return auto, tuple(found)


def _parts(to: str, groups: int) -> tuple[Part, ...]:
    """``{N}`` is a group of the expression, ``{PLUGIN/NAME}`` a label."""
    found: list[Part] = []
    while to:
        literal, opened, rest = to.partition("{")
        if "}" in literal:
            raise CorefileError("unmatched closing brace in metadata name replacement")
        word, closed, to = rest.partition("}")
        if not opened:
            return (*found, Part(literal.lower()))
        if not closed:
            raise CorefileError("unclosed placeholder in metadata name replacement")
        if re.fullmatch(r"[+-]?[0-9]+", word):
            if not 0 <= int(word) <= min(groups, GROUPS_MAX - 1):
                raise CorefileError(f"capture group {word} does not exist in name matching pattern")
            found.append(Part(literal.lower(), group=int(word)))
        elif not is_label(word) or "{" in word:
            raise CorefileError(f"invalid metadata label {quoted(word)} in name replacement")
        else:
            found.append(Part(literal.lower(), label=word))
    return tuple(found)


def _pattern(source: str, to: str) -> Regex:
    """The regular expression `source`, of whose groups `to` uses no more than there are."""
    size = len(source.encode("utf-8", "surrogateescape"))
    if size > LENGTH_MAX:
        raise CorefileError(f"regex pattern too long: {size} > {LENGTH_MAX}")
    try:
        pattern = regex.compile(source)
    except regex.RegexError:
        raise CorefileError(f"invalid regex matching pattern: {source}") from None
    if len({int(number) for number in re.findall(r"\{(0|[1-9]\d?|100)\}", to)}) > pattern.groups:
        raise CorefileError(f"the rewrite regex pattern ({to}) uses more subexpressions than its corresponding matching regex pattern ({source})")
    return pattern


# ---- types, classes, TTLs, response codes ----


def _type(stop: bool, words: list[str]) -> Rule:
    return Rule("type", stop, numbers=_numbers("type", TYPES, words))


def _class(stop: bool, words: list[str]) -> Rule:
    return Rule("class", stop, numbers=_numbers("class", CLASSES, words))


def _numbers(kind: str, names: dict[int, str], words: list[str]) -> tuple[int, int]:
    numbers = {name.upper() if name != "None" else "NONE": number for number, name in names.items()}
    for word in words:
        if word.upper() not in numbers:
            raise CorefileError(f"invalid {kind} {quoted(word.upper())}")
    return numbers[words[0].upper()], numbers[words[1].upper()]


def _ttl(stop: bool, words: list[str]) -> Rule:
    if len(words) < 2:
        raise CorefileError(f"too few ({len(words)}) arguments for a ttl rule")
    text = words[1] if len(words) == 2 else words[2] if len(words) == 3 else ""
    limits = _limits(text)
    if limits is None:
        raise CorefileError(f"invalid TTL '{text}' for a ttl rule")
    return _response_rule("ttl", stop, words, 2, limits)


def _limits(text: str) -> tuple[int, int] | None:
    """Least and greatest of ``N``, ``MIN-MAX``, ``-MAX`` or ``MIN-``."""
    parts = text.split("-")
    try:
        if len(parts) == 1:
            return (parse_uint(text, 32),) * 2
        if len(parts) != 2 or parts == ["", ""]:
            return None
        least = parse_uint(parts[0], 32) if parts[0] else 0
        most = parse_uint(parts[1], 32) if parts[1] else 2**31 - 1
    except ValueError:
        return None
    return (least, most) if least <= most else None


def _rcode(stop: bool, words: list[str]) -> Rule:
    if len(words) < 3:
        raise CorefileError(f"too few ({len(words)}) arguments for a rcode rule")
    old, new = words[1:] if len(words) == 3 else words[2:] if len(words) == 4 else ("", "")
    numbers = []
    for what, word in (("matching", old), ("replacement", new)):
        number = _rcode_number(word)
        if number is None:
            raise CorefileError(f"invalid {what} RCODE '{word}' for a rcode rule")
        numbers.append(number)
    return _response_rule("rcode", stop, words, 3, (numbers[0], numbers[1]))


def _rcode_number(word: str) -> int | None:
    if word.isascii() and word.isdigit() and int(word) <= 23:
        return int(word)
    names = {name: number for number, name in RCODES.items()} | {"NOTIMPL": 4}
    return names.get(word.upper())


def _response_rule(kind: str, stop: bool, words: list[str], short: int, numbers: tuple[int, int]) -> Rule:
    """``[MATCH] NAME …``: with `short` words the match is exact."""
    if len(words) == short:
        return Rule(kind, stop, "exact", normalize(words[0]), numbers=numbers)
    if len(words) > short + 1:
        raise CorefileError(f"many few arguments for a {kind} rule")
    match, source = words[0].lower(), words[1]
    if match not in MATCHES:
        raise CorefileError(f"{kind} rule supports only exact, prefix, suffix, substring, and regex name matching")
    if match != "regex":
        return Rule(kind, stop, match, normalize(source), numbers=numbers)
    size = len(source.encode("utf-8", "surrogateescape"))
    if size > LENGTH_MAX:
        raise CorefileError(f"regex pattern too long in a {kind} rule: {size} > {LENGTH_MAX}")
    try:
        pattern = regex.compile(source)
    except regex.RegexError:
        raise CorefileError(f"invalid regex pattern in a {kind} rule: {source}") from None
    return Rule(kind, stop, match, source, pattern=pattern, numbers=numbers)


# ---- targets of aliases ----


def _cname(stop: bool, words: list[str]) -> Rule:
    if len(words) not in (2, 3):
        raise CorefileError(f"too few ({len(words)}) arguments for a cname rule")
    match = words[0].lower() if len(words) == 3 else "exact"
    if match not in MATCHES:
        raise CorefileError(f"unknown cname rewrite type: {match}")
    source, to = words[-2].lower(), words[-1].lower()
    if match == "exact":
        return Rule("cname", stop, match, normalize(source), normalize(to))
    if match != "regex":
        return Rule("cname", stop, match, source, to)
    size = len(source.encode("utf-8", "surrogateescape"))
    if size > LENGTH_MAX:
        raise CorefileError(f"regex pattern too long in a cname rule: {size} > {LENGTH_MAX}")
    try:
        pattern = regex.compile(source)
    except regex.RegexError as error:
        raise CorefileError(f"invalid cname rewrite regex pattern: {error}") from None
    return Rule("cname", stop, match, source, to, pattern)


# ---- options (RFC 6891) ----

NSID, SUBNET = 3, 8


def _edns0(stop: bool, words: list[str]) -> Rule:
    if len(words) < 2:
        raise CorefileError("too few arguments for an EDNS0 rule")
    kind, action = words[0].lower(), words[1].lower()
    if action == "unset":
        return Rule("edns0", stop, option=_unset(kind, words))
    if action not in ("append", "replace", "set"):
        raise CorefileError(f"invalid action: {quoted(action)}")
    revert = words[-1] == "revert"
    if revert:
        words = words[:-1]
    if kind == "local":
        if len(words) != 4:
            raise CorefileError("EDNS0 local rules require three or four args")
        option = _local(action, words[2], words[3], revert)
    elif kind == "nsid":
        if len(words) != 2:
            raise CorefileError("EDNS0 NSID rules can accept no more than one arg")
        option = Option("nsid", action, NSID, revert=revert)
    elif kind == "subnet":
        if len(words) != 4:
            raise CorefileError("EDNS0 subnet rules require three or four args")
        option = Option("subnet", action, SUBNET, bits=(_bits("IPv4", words[2], 32), _bits("IPv6", words[3], 128)), revert=revert)
    else:
        raise CorefileError(f"invalid rule type {quoted(kind)}")
    return Rule("edns0", stop, option=option)


def _unset(kind: str, words: list[str]) -> Option:
    if kind == "local":
        if len(words) != 3:
            raise CorefileError("local unset action requires exactly two arguments")
        return Option("local", "unset", _number(words[2]))
    if kind not in ("nsid", "subnet"):
        raise CorefileError(f"invalid rule type {quoted(kind)}")
    if len(words) != 2:
        raise CorefileError(f"{kind} unset action requires exactly one argument")
    return Option(kind, "unset", NSID if kind == "nsid" else SUBNET)


def _local(action: str, code: str, data: str, revert: bool) -> Option:
    number = _number(code)
    if data.startswith("{") and data.endswith("}"):
        variable = data[1:-1]
        if variable not in VARIABLES and not is_label(variable):
            raise CorefileError(f"unsupported variable name {quoted(data)}")
        return Option("local", action, number, variable=variable, revert=revert)
    octets = data.encode("utf-8", "surrogateescape")
    if data.startswith("0x"):
        octets = _hexadecimal(data[2:])
    return Option("local", action, number, octets, revert=revert)


def _hexadecimal(text: str) -> bytes:
    for char in text:
        if char not in "0123456789abcdefABCDEF":
            raise CorefileError(f"encoding/hex: invalid byte: U+{ord(char):04X} '{char}'")
    if len(text) % 2:
        raise CorefileError("encoding/hex: odd length hex string")
    return bytes.fromhex(text)


def _number(text: str) -> int:
    """A number up to 65535 in Go's notations: ``0x``, ``0o`` or ``0``, ``0b``, with underscores between digits."""
    digits, base = text, 10
    for prefix, other in (("0x", 16), ("0o", 8), ("0b", 2)):
        if text[:2].lower() == prefix:
            digits, base = text[2:], other
    if base == 10 and len(text) > 1 and text[0] == "0":
        digits, base = text[1:], 8
    try:
        if not digits.isascii() or not digits[:1].isalnum():
            raise ValueError
        number = int(digits, base)
    except ValueError:
        raise CorefileError(f"strconv.ParseUint: parsing {quoted(text)}: invalid syntax") from None
    if number > 65535:
        raise CorefileError(f"strconv.ParseUint: parsing {quoted(text)}: value out of range")
    return number


def _bits(family: str, text: str, most: int) -> int:
    bits = _number(text)
    if bits > most:
        raise CorefileError(f"invalid {family} bit mask length {bits}")
    return bits
