"""Contexts of libunbound that handlers share: a reload with the same settings goes on with the one that is there, and so with its cache."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from typing import NamedTuple

from fastdns.plugins.unbound._resolver import Context

__all__ = ["Setting", "SharedContext", "acquire"]

#: Descriptors that a context may have open for questions over UDP, and no more than a quarter of the process's.
DESCRIPTORS = 1024
#: What a server needs and a program that asks now and then does not: libunbound's own defaults are 1 MB for each cache, and 16 questions under way.
DEFAULTS = (
    ("msg-cache-size", "4m"),
    ("rrset-cache-size", "8m"),
    ("key-cache-size", "4m"),
    ("neg-cache-size", "1m"),
    ("outgoing-num-tcp", "32"),
)
#: The keys of the root (https://data.iana.org/root-anchors/root-anchors.xml).
ROOT_KEYS = (
    ". IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
    ". IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
)
#: Options by which the Corefile itself says what is trusted, or names another root.
TRUST = {"auto-trust-anchor-file", "module-config", "root-hints", "trust-anchor", "trust-anchor-file", "trusted-keys-file"}
#: Its file is written by Unbound, not by an operator.
WRITTEN = "auto-trust-anchor-file"


class Setting(NamedTuple):
    """An ``option`` of the block; with an empty name, the file of a ``config``."""

    name: str
    value: str
    #: The line of the Corefile.
    line: int = 0


class SharedContext:
    """A context and the number of handlers that have it."""

    def __init__(self, key: tuple[object, ...]) -> None:
        """OSError, MemoryError: as of `Context`."""
        self.native = Context()
        self.key = key
        self.handlers = 1

    def give_back(self) -> None:
        """A handler is closed. With the last one the context ends."""
        with _lock:
            self.handlers -= 1
            if self.handlers:
                return
            del _contexts[self.key]
        self.native.stop()


_lock = threading.Lock()
_contexts: dict[tuple[object, ...], SharedContext] = {}


class SettingError(Exception):
    """libunbound refuses a setting; ``line`` is that of the Corefile, 0 where no single one is to blame."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def acquire(settings: list[Setting]) -> SharedContext:
    """The context with these settings, for one more handler: the one that is there, or a new one. Raises SettingError, OSError, MemoryError."""
    key = key_of(settings)
    with _lock:
        found = _contexts.get(key)
        if found is not None:
            found.handlers += 1
            return found
        made = SharedContext(key)
        fill(made.native, settings)
        _contexts[key] = made
        return made


def fill(context: Context, settings: list[Setting]) -> None:
    """Set what a server needs, then what the Corefile says, in its order."""
    line = 0
    try:
        for name, value in (*DEFAULTS, ("outgoing-range", str(descriptors()))):
            context.set_option(name, value)
        if not any(setting.name in TRUST or not setting.name for setting in settings):
            for key in ROOT_KEYS:
                context.set_option("trust-anchor", key)
        for setting in settings:
            line = setting.line
            if setting.name:
                context.set_option(setting.name, setting.value)
            else:
                context.read_config(setting.value)
        line = 0
        context.complete()
    except ValueError as error:
        raise SettingError(str(error), line) from None


def descriptors() -> int:
    return min(DESCRIPTORS, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


def key_of(settings: list[Setting]) -> tuple[object, ...]:
    """What two contexts have in common that answer alike: the settings, and the state of the files that these name, be it in a file of `config`."""
    states = {path: state(path) for path in files_of(settings)}
    return (*((setting.name, setting.value) for setting in settings), *sorted(states.items()))


def files_of(settings: list[Setting]) -> list[str]:
    """The files that these settings name, be it in a file of `config`, but for what libunbound writes."""
    named = [setting.value for setting in settings if setting.name != WRITTEN]
    for setting in settings:
        if not setting.name:
            named += words(setting.value)
    return [path for path in named if os.path.isfile(path)]


def words(path: str) -> list[str]:
    """The words of a file in the form of unbound.conf(5), without quotes and comments; none where it cannot be read."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return []
    lines = [line.partition("#")[0] for line in text.splitlines() if not line.lstrip().startswith(WRITTEN)]
    return [word.strip("\"'") for line in lines for word in line.replace(":", " ", 1).split()]


def state(path: str) -> tuple[int, int, int]:
    """What changes when a file is written anew."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns
