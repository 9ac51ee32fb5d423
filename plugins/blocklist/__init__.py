"""blocklist: answers the names of lists instead of those who know them."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from fastdns.corefile.address import packed
from fastdns.corefile.errors import quoted, system_error
from fastdns.plugin import BELOW, BOTH, Controller, NameMap, Record, Traits
from fastdns.plugins.blocklist.policy import SOURCES_MOST, Answer, Blocklist
from fastdns.plugins.blocklist.source import FileSource, Source, UrlSource, is_url
from fastdns.plugins.file.hosted_options import refresh_seconds
from fastdns.plugins.file.storage import store_folder
from fastdns.protocol.parameters import TYPE_A, TYPE_AAAA

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

RCODES = {"nxdomain": "NXDOMAIN", "nodata": "NOERROR", "refused": "REFUSED"}
TTL_MOST = 65_535


class Settings:
    """What the ``blocklist`` lines of a block say."""

    def __init__(self) -> None:
        #: Kind, place, and whether its names are exceptions.
        self.lists: list[tuple[str, str, bool]] = []
        #: Names with their scopes.
        self.allowed: list[tuple[str, int]] = []
        self.rcode = "NXDOMAIN"
        #: Addresses to answer with, in network order.
        self.addresses: list[bytes] = []
        #: Seconds.
        self.ttl = 300
        #: Seconds between two requests for a URL.
        self.refresh = 3600.0
        #: Folder where fetched lists are kept; "": nowhere.
        self.snapshot = ""


def setup(controller: Controller) -> Blocklist:
    """One plugin for all lines of the block. Files are read before it serves, URLs afterwards."""
    settings = parse(controller)
    records = tuple(Record(TYPE_A if len(address) == 4 else TYPE_AAAA, address, settings.ttl) for address in settings.addresses)
    plugin = Blocklist(_sources(settings), settings.allowed, Answer(settings.rcode, records), settings.ttl)
    controller.on_startup(plugin.start)
    controller.on_started(plugin.follow)
    controller.on_shutdown(plugin.stop)
    return plugin


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError."""
    settings = Settings()
    while controller.next():
        for word in controller.remaining_args():
            settings.lists.append(("domains", _place(controller, word), False))
        while controller.next_block():
            _option(controller, settings)
    if not any(not exceptions for _, _, exceptions in settings.lists):
        raise controller.err("no list given")
    if len(settings.lists) > SOURCES_MOST:
        raise controller.err(f"more than {SOURCES_MOST} lists")
    return settings


def _option(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "hosts" | "domains" | "rpz" as kind:
            settings.lists += [(kind, _place(controller, word), False) for word in controller.args(1)]
        case "allow":
            for word in controller.args(1):
                if "/" in word:
                    settings.lists.append(("domains", _place(controller, word), True))
                else:
                    settings.allowed.append(_name(controller, word))
        case "answer":
            _answer(controller, settings)
        case "ttl":
            settings.ttl = _ttl(controller)
        case "refresh":
            settings.refresh = refresh_seconds(controller, controller.one_arg())
        case "snapshot":
            settings.snapshot = store_folder(controller)
        case word:
            raise controller.err(f"unknown property '{word}'")


def _place(controller: Controller, word: str) -> str:
    """A path, which can be read, or a URL."""
    if is_url(word):
        try:
            parts = urlsplit(word)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            valid = False
        if not valid:
            raise controller.err(f"invalid URL {quoted(word)}: want http:// or https://")
        return word
    path = controller.path(word)
    try:
        with open(path, "rb") as file:
            os.fstat(file.fileno())
    except OSError as error:
        raise controller.err(system_error(error, "open", path)) from error
    return path


def _name(controller: Controller, word: str) -> tuple[str, int]:
    """``NAME``, with all names below it, or ``*.NAME``, these alone."""
    name, scopes = (word[2:], BELOW) if word.startswith("*.") else (word, BOTH)
    try:
        NameMap([name])
    except ValueError:
        raise controller.err(f"invalid name {quoted(word)}") from None
    return name, scopes


def _answer(controller: Controller, settings: Settings) -> None:
    words = controller.args(1)
    settings.addresses = []
    if len(words) == 1 and words[0] in RCODES:
        settings.rcode = RCODES[words[0]]
        return
    for word in words:
        address = packed(word)
        if address is None:
            raise controller.err(f"invalid answer {quoted(word)}: want nxdomain, nodata, refused or addresses")
        settings.addresses.append(address)


def _ttl(controller: Controller) -> int:
    text = controller.one_arg()
    try:
        ttl = controller.integer(text)
    except ValueError as error:
        raise controller.err(f"invalid ttl {quoted(text)}: {error}") from error
    if not 0 <= ttl <= TTL_MOST:
        raise controller.err(f"invalid ttl {quoted(text)}: want 0 to {TTL_MOST}")
    return ttl


def _sources(settings: Settings) -> list[Source]:
    found: list[Source] = []
    for kind, place, exceptions in settings.lists:
        if is_url(place):
            found.append(UrlSource(kind, place, exceptions=exceptions, seconds=settings.refresh, folder=settings.snapshot))
        else:
            found.append(FileSource(kind, place, exceptions=exceptions))
    return found
