"""The configuration of one Corefile: blocks are parsed, all set-ups have run, and servers are grouped and checked. No socket is open yet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fastdns.corefile import CorefileError, ServerBlock, parse
from fastdns.corefile.errors import defect, plugin_frames, system_error
from fastdns.corefile.lexer import Token, same_line
from fastdns.corefile.zone import parse_key
from fastdns.server.servers import Server, group, validate
from fastdns.server.source import Source, built_in
from fastdns.setup import Config, Controller, Hooks, files, registry
from fastdns.setup.config import Hook
from fastdns.setup.guard import call
from fastdns.setup.traits import Traits
from fastdns.system.digest import hash_of
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns._mux import NativeHandler

__all__ = ["Configuration", "blocks_of", "checksum", "config_of", "run_hooks"]

log = Log()


class Configuration:
    """The configuration of one Corefile."""

    def __init__(self, source: Source, dns_port: str, process: Any = None, share: float = 1.0) -> None:
        """Run all set-ups. ``process`` and ``share`` become those of the `Controller`. Raises CorefileError."""
        self.source = source
        self.share = share
        self.process = process
        self.checksum = ""
        #: Broken files of ``import … skip_broken``, without which this is, and their errors.
        self.left_out: dict[str, CorefileError] = {}
        while True:
            try:
                self._build(dns_port)
                break
            except CorefileError as error:
                if not error.origin or error.origin in self.left_out:
                    raise
                self.left_out[error.origin] = error
        self.hooks = Hooks(self.directives)

    def _build(self, dns_port: str) -> None:
        """Without the files that were found broken; an error of another one names it as its origin."""
        #: Of each directive in each block, in the order of set-up.
        self.directives: list[Hooks] = []
        #: See `Controller.values`.
        self.values: dict[str, Any] = {}
        self.servers: list[Server] = []
        blocks = self._blocks(dns_port)
        # Of all that parses: this is what *reload* compares.
        self.checksum = self.checksum or checksum(blocks)
        self.configs = [config_of(block, dns_port) for block in blocks]
        for block, config in zip(blocks, self.configs, strict=True):
            config.compares_files = any(registry.traits(name).takes_over for name in block.tokens)
        try:
            self._set_up(blocks)
            self._group()
            self._find_predecessors(blocks)
        except BaseException:
            self.discard()
            raise

    def _blocks(self, dns_port: str) -> list[ServerBlock]:
        # Nothing but comments or snippets: what is served without any Corefile.
        return blocks_of(self.source, bool(self.checksum), self.left_out) or blocks_of(built_in(dns_port))

    def _group(self) -> None:
        validate(self.configs)
        self.servers = group(self.configs)

    def _find_predecessors(self, blocks: list[ServerBlock]) -> None:
        """For each block the same one of the configuration that serves. A reload for which nothing has changed (SIGUSR1) begins anew, so it has none."""
        for block, config in zip(blocks, self.configs, strict=True):
            config.identity = _identity(block, config)
        serving: Configuration | None = getattr(getattr(self.process, "instance", None), "configuration", None)
        if serving is None or serving.checksum == self.checksum:
            return
        former = {config.identity: config for config in serving.configs if config.identity}
        for config in self.configs:
            config.predecessor = former.pop(config.identity, None)

    def start(self, first: bool) -> None:
        """Run the start-up hooks; at the start of the process also those of `on_first_startup`. An exception rejects the configuration."""
        for kind in ("first_startup", "startup") if first else ("startup",):
            for directive in self.directives:
                for hook in getattr(directive, kind):
                    call(hook)
                    directive.has_started = True
        for config in self.configs:
            config.predecessor = None

    def not_ready(self) -> list[str]:
        """Names of the plugins that say so, sorted."""
        return sorted({name for config in self.configs for name, check in config.ready_checks().items() if not check()})

    def discard(self) -> None:
        """Undo a configuration that is rejected, or was only tried: run the shutdown hooks of directives that have started, and close all handlers."""
        run_hooks([hook for directive in self.directives if directive.has_started for hook in directive.shutdown], "Undoing the start")
        run_hooks([handler.close for config in self.configs for handler in config.handlers], "Closing plugins")

    def _set_up(self, blocks: list[ServerBlock]) -> None:
        """Each directive in turn, for all blocks in the order of the file."""
        loaded = [_files(block) for block in blocks]
        names = {name for block in blocks for name in block.tokens}
        try:
            order = registry.in_order()
            order = registry.anchored(order, [(plugin.key, plugin.before, plugin.after) for some in loaded for plugin in some])
        except ValueError as error:
            raise CorefileError(str(error)) from None
        for block, config in zip(blocks, self.configs, strict=True):
            config.directives = [name for name in registry.in_order() if name in block.tokens]
        by_key = {plugin.key: plugin for some in loaded for plugin in some}
        for name in order:
            if name in by_key:
                plugin = by_key[name]
                index = next(index for index, some in enumerate(loaded) if plugin in some)
                self._run(plugin.setup, plugin.name, plugin.words, self.configs[index], plugin.traits)
            elif name in names:
                for block, config in zip(blocks, self.configs, strict=True):
                    if name in block.tokens:
                        self._run(None, name, block.tokens[name], config, registry.traits(name))
        for config in self.configs:
            for name, check in config.checks:
                self._check(config, name, check)

    def _check(self, config: Config, name: str, check: Hook) -> None:
        """Run the functions of `Controller.on_complete`."""
        try:
            call(check)
        except CorefileError as error:
            raise CorefileError(_prefixed(name, str(error)), error.file, error.line).of(config.origins.get(name, config.origin)) from None

    def _run(self, setup: registry.Setup | None, name: str, words: list[Token], config: Config, traits: Traits) -> None:
        """One directive of one block; ``setup`` None: that of the plugin of this name."""
        if setup is None:
            setup = _load(name, words)
        hooks = Hooks()
        self.directives.append(hooks)
        controller = Controller(name, words, self.source.file, config, hooks, self.values, self.process, self.configs, self.share)
        config.origins[name] = _origin(words)
        standing = set(map(id, config.handlers))
        try:
            handler = call(setup, controller)
            if handler is not None:
                config.add_handler(call(_native, name, handler, config))
            for added in config.handlers:
                if id(added) not in standing:
                    added.set_traits(traits)
        except CorefileError as error:
            place = Token(error.file, error.line, "") if error.line else controller.place()
            raise CorefileError(_prefixed(name, str(error)), place.file, place.line).of(controller.place().origin or _origin(words)) from None
        except Exception as error:
            place = controller.place()
            frames: list[str] = []
            text = _text(error)
            if not isinstance(error, (OSError, ValueError)):
                frames = plugin_frames(error)
                if frames:
                    text = f"{place.file}:{place.line} - Error during parsing: {text}"
            raise CorefileError(_prefixed(name, text), place.file, place.line, frames).of(place.origin or _origin(words)) from error


def _origin(words: list[Token]) -> str:
    """The file of ``import … skip_broken`` that has a part in these words; "" for none, and where there are several."""
    origins = {word.origin for word in words} - {""}
    return origins.pop() if len(origins) == 1 else ""


def _text(error: Exception) -> str:
    """The CorefileError's text for a set-up's exception; an unexpected exception is reported as a defect."""
    if isinstance(error, OSError):
        return system_error(error) if error.filename is not None else str(error)
    return str(error) if isinstance(error, ValueError) else defect(error)


def _native(name: str, handler: Any, config: Config) -> NativeHandler:
    """The handler that a set-up returned; for a Python plugin one that passes queries to it."""
    from fastdns._mux import NativeHandler

    if isinstance(handler, NativeHandler):
        return handler
    if not callable(getattr(handler, "serve", None)):
        raise TypeError(f"setup returned {type(handler).__name__}, which has no serve method")
    from fastdns.executor.handler import PythonHandler

    return PythonHandler(name, handler, config)


def run_hooks(hooks: Iterable[Hook], what: str) -> list[Exception]:
    """Call every hook even if some fail; failures are logged as ``WHAT: ERROR`` and returned."""
    failures = []
    for hook in hooks:
        try:
            call(hook)
        except Exception as error:
            log.error(f"{what}: {error}")
            failures.append(error)
    return failures


class _File:
    """One occurrence of ``plugin FILE.py [ARGS…]``, as a directive of its own that has the file's name."""

    __slots__ = ("after", "before", "key", "name", "setup", "traits", "words")

    def __init__(self, block: ServerBlock, words: list[Token]) -> None:
        place = words[0]
        if len(words) < 2 or not same_line(place, words[1]) or words[1].text == "{":
            text = f"Wrong argument count or unexpected line ending after '{place.text}'"
            raise CorefileError(f"plugin/plugin: {place.file}:{place.line} - Error during parsing: {text}", place.file, place.line).of(place.origin)
        path = os.path.join(_root(block), words[1].text)
        self.name = os.path.splitext(os.path.basename(path))[0]
        try:
            self.setup, self.before, self.after, self.traits = registry.load_file(path)
        except CorefileError as error:
            text = f"plugin/plugin: {place.file}:{place.line} - Error during parsing: {error}"
            raise CorefileError(text, place.file, place.line, error.frames).of(place.origin) from None
        self.key = f"plugin {path} {place.file}:{place.line} {id(words)}"
        self.words = [Token(place.file, place.line, self.name, origin=place.origin), *words[2:]]


def blocks_of(source: Source, quiet: bool = False, left_out: dict[str, CorefileError] | None = None) -> list[ServerBlock]:
    """The server blocks of a Corefile; ``quiet``: without warnings; ``left_out``: as of `parse`. Raises CorefileError."""
    return parse(source.data, source.file, registry.known, None if quiet else lambda text, _: log.warning(text), left_out)


def checksum(blocks: list[ServerBlock]) -> str:
    """SHA-512 in hexadecimal of the blocks' keys and tokens, independent of the layout, and of the files that ``plugin`` loads."""
    parts = [repr([block.meaning() for block in blocks]).encode("utf-8", "surrogatepass")]
    for block in blocks:
        for words in _occurrences(block):
            if len(words) > 1:
                parts.append(files.digest(os.path.join(_root(block), words[1].text)))
    return hash_of("sha512", b"".join(parts)).hex()


def _identity(block: ServerBlock, config: Config) -> str:
    """See `Config.identity`: plugins of ours say what they read."""
    if not config.compares_files or any(name not in registry.in_tree() for name in block.tokens):
        return ""
    return hash_of("sha512", repr((block.meaning(), sorted(config.files.items()))).encode("utf-8", "surrogatepass")).hex()


def config_of(block: ServerBlock, dns_port: str) -> Config:
    """Zones and addresses of a block's keys. Raises CorefileError."""
    try:
        addresses = [address for key in block.keys for address in parse_key(key, dns_port)]
    except ValueError as error:
        place = block.place or Token("", 0, "")
        raise CorefileError(f"error inspecting server blocks: {error}", place.file, place.line).of(block.origin) from None
    if not addresses:
        raise CorefileError("error inspecting server blocks: a block without keys")
    config = Config(addresses)
    if block.place is not None:
        config.place = (block.place.file, block.place.line)
    config.origin = block.origin
    return config


def _load(name: str, words: list[Token]) -> registry.Setup:
    try:
        return registry.load(name)
    except CorefileError as error:
        place = words[0]
        raise CorefileError(f"{place.file}:{place.line} - Error during parsing: {error}", place.file, place.line).of(_origin(words)) from None
    except Exception as error:
        raise CorefileError(f"plugin/{name}: cannot be loaded: {registry.unloadable(error)}").of(_origin(words)) from error


def _files(block: ServerBlock) -> list[_File]:
    """The files that ``plugin`` loads in a block. Raises CorefileError."""
    return [_File(block, words) for words in _occurrences(block)]


def _occurrences(block: ServerBlock) -> list[list[Token]]:
    """The words of each ``plugin`` in a block: each begins a line outside of braces."""
    found: list[list[Token]] = []
    depth = 0
    words = block.tokens.get(registry.FILE_DIRECTIVE, [])
    for index, word in enumerate(words):
        if depth == 0 and (index == 0 or not same_line(words[index - 1], word)):
            found.append([])
        depth += (word.text == "{") - (word.text == "}")
        found[-1].append(word)
    return found


def _root(block: ServerBlock) -> str:
    """The argument of `root` in a block: plugin files are loaded before any set-up runs."""
    words = block.tokens.get("root", [])
    values = [word.text for name, word in pairwise(words) if name.text == "root" and same_line(name, word)]
    return values[-1] if values else ""


def _prefixed(name: str, text: str) -> str:
    return text if name == "on" or text.startswith(f"plugin/{name}: ") else f"plugin/{name}: {text}"
