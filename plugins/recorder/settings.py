"""The Corefile of recorder."""

from __future__ import annotations

import re
from typing import NamedTuple

from fastdns.plugins.recorder.folder import FILES_DEFAULT, OCTETS_DEFAULT
from fastdns.plugins.recorder.triggers import Rule, parse_rule
from fastdns.setup import Controller

__all__ = ["Files", "Settings", "octets", "parse"]

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
#: Octets of all records in memory.
SIZE_LEAST, SIZE_MOST = 1 << 20, 16 << 30
#: Of the folder. One recording takes two files, each of at most half as many octets.
FILES_LEAST, FILES_MOST = 2, 10_000
OCTETS_LEAST = 1 << 20
RULES_MOST = 16
#: Seconds.
SLOW_DEFAULT = 0.5
LABELS_ALL = 255
#: More labels than names have.
LABELS_MOST = 127


class Settings(NamedTuple):
    """What one occurrence says of memory: where it says the same, it is the same memory."""

    size: int
    #: Nanoseconds from which on a query is slow.
    slow: int = int(SLOW_DEFAULT * 1e9)
    name_hash: bool = False
    #: Labels of names that stay.
    name_labels: int = LABELS_ALL
    #: Bits of addresses that stay.
    prefix_ipv4: int = 32
    prefix_ipv6: int = 128


class Files(NamedTuple):
    """What one occurrence says of files."""

    #: The folder; "": none are written.
    folder: str = ""
    files: int = FILES_DEFAULT
    octets: int = OCTETS_DEFAULT
    rules: tuple[Rule, ...] = ()


def parse(controller: Controller) -> tuple[Settings, Files]:
    """Raises CorefileError, ValueError."""
    settings, files = Settings(0), Files()
    while controller.once():
        settings = Settings(size(controller, controller.one_arg()))
        while controller.next_block():
            if controller.val() in ("to", "when"):
                files = parse_files(controller, files)
            else:
                settings = parse_option(controller, settings)
    if files.rules and not files.folder:
        raise controller.err("'when' needs the folder that 'to' gives")
    return settings, files


def parse_files(controller: Controller, files: Files) -> Files:
    if controller.val() == "to":
        arguments = controller.args(1, 3)
        number, most = FILES_DEFAULT, OCTETS_DEFAULT
        if len(arguments) > 1:
            number = whole(controller, arguments[1], FILES_LEAST, FILES_MOST)
        if len(arguments) > 2:
            most = octets(arguments[2]) or 0
            if not OCTETS_LEAST <= most <= SIZE_MOST:
                raise controller.err(f"the files must be between 1MiB and 16GiB together, such as 256MiB: '{arguments[2]}'")
        return files._replace(folder=controller.path(arguments[0], reads=False), files=number, octets=most)
    if len(files.rules) == RULES_MOST:
        raise controller.err(f"more than {RULES_MOST} rules")
    try:
        rule = parse_rule(controller.remaining_args(), controller.seconds)
    except ValueError as error:
        raise controller.err(str(error)) from None
    return files._replace(rules=(*files.rules, rule))


def parse_option(controller: Controller, settings: Settings) -> Settings:
    match controller.val():
        case "slow":
            nanoseconds = controller.duration(controller.one_arg())
            if nanoseconds <= 0:
                raise controller.err("slow must be longer than no time")
            return settings._replace(slow=nanoseconds)
        case "names":
            arguments = controller.args(1, 2)
            if arguments[0] not in ("hash", "cut"):
                raise controller.err(f"names are 'hash' or 'cut', not '{arguments[0]}'")
            if arguments[0] == "cut" and len(arguments) == 1:
                raise controller.err("names cut needs the number of labels that stay")
            labels = whole(controller, arguments[1], 0, LABELS_MOST) if len(arguments) == 2 else 0
            return settings._replace(name_hash=arguments[0] == "hash", name_labels=labels)
        case "clients":
            arguments = controller.args(2, 2)
            return settings._replace(prefix_ipv4=whole(controller, arguments[0], 0, 32), prefix_ipv6=whole(controller, arguments[1], 0, 128))
        case unknown:
            raise controller.err(f"unknown property '{unknown}'")


def size(controller: Controller, text: str) -> int:
    """Of the memory. Raises CorefileError."""
    number = octets(text)
    if number is None or not SIZE_LEAST <= number <= SIZE_MOST:
        raise controller.err(f"the size must be between 1MiB and 16GiB, such as 16MiB: '{text}'")
    return number


def octets(text: str) -> int | None:
    """Of a size with or without a unit of K, M or G (powers of 1,024, also with ``iB``); None: it is none."""
    found = re.fullmatch(r"([0-9]{1,18})([KMG]?)(?:iB)?", text)
    return int(found[1]) * UNITS[found[2]] if found else None


def whole(controller: Controller, text: str, least: int, most: int) -> int:
    """Raises CorefileError."""
    try:
        number = controller.integer(text)
    except ValueError as error:
        raise controller.err(f"{text} invalid value. {error}") from None
    if not least <= number <= most:
        raise controller.err(f"{text} must be between {least} and {most}")
    return number
