"""Inspection of a Corefile without serving it: all its problems, and the servers it configures."""

from __future__ import annotations

import difflib
import os
import re
from typing import Any, NamedTuple

from fastdns.corefile import CorefileError, ServerBlock, parse
from fastdns.corefile.lexer import Token, occurrences_of
from fastdns.corefile.parser import GONE
from fastdns.server.configuration import Configuration, config_of, run_hooks
from fastdns.server.servers import group, validate
from fastdns.server.source import Source, built_in
from fastdns.setup import Config, registry
from fastdns.setup.config import Hook
from fastdns.setup.traits import Traits
from fastdns.telemetry import log

__all__ = ["Inspection", "Problem"]

#: ``FILE:LINE`` at the beginning of an error's text, behind the plugin's name.
PLACE = re.compile(r"(?:plugin/\w+: )*(\S+):(\d+) - (?:Error during parsing|Syntax error): ")

#: What to do about an error, by a part of its text.
HINTS = (
    (r"which pod asks", "add 'pods verified' to kubernetes in this block; it watches all pods"),
    (r"whose names these are", "target is for names that kubernetes answers in this block"),
    (r"unable to load in-cluster configuration|serviceaccount", "run this in the pod, or give kubernetes an `endpoint`, a `kubeconfig` or `manifests`"),
    (r"already defined", "two server blocks have the same zone and port: merge them, give one another port, or part them by `view` or `bind`"),
    (r"zone overlap listener capacity", "one block binds all addresses and the other one only some: `bind` both"),
    (r"only be used once per Server Block", "leave one of them out"),
    (r"not an IP address", "name servers are given as addresses, or as a file such as /etc/resolv.conf"),
    (r"no such file or directory|does not exist", "is the volume mounted, and the path relative to `root`?"),
    (r"Unexpected '}'|unexpected '}'", "there is one brace too many, or one too few above"),
    (r"Unexpected EOF|EOF", "a brace `{` is never closed, or a quote is open"),
    (r"old name of", "nothing else changes"),
)

#: The same for errors that are no plugin's.
GRAMMAR = (
    (r"import", "a snippet `(name) { ... }` stands above its import; files are relative to the one that imports them, or to the working directory"),
    (r"error inspecting server blocks|invalid port", "a block begins with zones such as `example.org`, `.:1053` or `10.0.0.0/8`"),
    (r"Syntax error|[Ee]xpected", "server blocks are `ZONE... {`, a directive with its arguments in each line, and `}`"),
)


class Problem(NamedTuple):
    """A problem of the Corefile. ``severity`` is ``error`` (the Corefile would be rejected) or ``warning``."""

    severity: str
    file: str
    #: From 1; 0: unknown.
    line: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.severity}: {self.message}" + (f"\n    hint: {self.hint}" if self.hint else "")


class Inspection(Configuration):
    """A configuration that collects errors in place of stopping at the first one. Of its hooks only those of `Controller.on_inspection` are run."""

    def __init__(self, source: Source, dns_port: str) -> None:
        self.problems: list[Problem] = []
        #: Blocks with directives that failed, by their Config.
        self.broken: set[int] = set()
        #: Blocks with a plugin that answers, likewise.
        self.answering: set[int] = set()
        #: First key of each block, likewise.
        self.places: dict[int, Token | None] = {}
        try:
            super().__init__(source, dns_port)
        except CorefileError as error:
            self._note(error)
            if not hasattr(self, "configs"):
                self.configs: list[Config] = []
        for left in self.left_out.values():
            self._note(left)
        self.problems.sort(key=lambda problem: (problem.file, problem.line))

    @property
    def failed(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    def _blocks(self, dns_port: str) -> list[ServerBlock]:
        unknown: set[str] = set()

        def known(name: str) -> bool:
            if not registry.known(name):
                unknown.add(name)
            return True

        blocks = parse(self.source.data, self.source.file, known, self._warn, self.left_out)
        standing = []
        for block in blocks:
            for name in unknown & block.tokens.keys():
                for word in _occurrences(name, block.tokens[name]):
                    message = f"{word.file}:{word.line} - Error during parsing: Unknown directive '{name}'{GONE.get(name, '')}"
                    self._note(CorefileError(message, word.file, word.line).of(word.origin))
            try:
                config_of(block, dns_port)
            except CorefileError as error:
                self._note(error)
            else:
                standing.append(block)
        return standing or parse(built_in(dns_port).data, self.source.file, registry.known, None)

    def _set_up(self, blocks: list[ServerBlock]) -> None:
        super()._set_up(blocks)
        for block, config in zip(blocks, self.configs, strict=True):
            self._look(block, config)
            self.places[id(config)] = block.place

    def _group(self) -> None:
        try:
            super()._group()
        except CorefileError:
            # Each block is checked with the valid blocks before it.
            standing: list[Config] = []
            for config in self.configs:
                try:
                    validate([*standing, config])
                    group([config])
                except CorefileError as error:
                    self._note(error, self.places[id(config)], directive=False)
                else:
                    standing.append(config)
            self.servers = group(standing)

    def _run(self, setup: registry.Setup | None, name: str, words: list[Token], config: Config, traits: Traits) -> None:
        def heard(level: str, text: str) -> None:
            if level in ("WARNING", "ERROR"):
                message = text.removeprefix(f"{words[0].file}:{words[0].line}: ")
                self._add("warning", words[0].file, words[0].line, message, _hint(text, None))

        if traits.answers:
            self.answering.add(id(config))
        before = log.divert(heard)
        try:
            super()._run(setup, name, words, config, traits)
            run_hooks(self.directives[-1].inspection, f"Inspecting {name}")
        except CorefileError as error:
            self._note(error, words[0])
            self.broken.add(id(config))
            self._look_further(setup, name, words, config, traits, error)
            # The report lists this handler too, though it cannot be made here.
            from fastdns._mux import NativeHandler

            if traits.answers and config.handler(name) is None:
                config.add_handler(NativeHandler(name))
        finally:
            log.divert(before)
        for suspicion in config.suspicions:
            self._add("warning", *suspicion)

    def _look_further(self, setup: registry.Setup | None, name: str, words: list[Token], config: Config, traits: Traits, error: CorefileError) -> None:
        """Errors behind the first one: in the other lines of its block, and in later occurrences of the directive, each set up alone."""
        occurrences = occurrences_of(name, words)
        at = next((at for at, some in enumerate(occurrences) if any((word.file, word.line) == (error.file, error.line) for word in some)), None)
        if at is None:
            return
        for occurrence in occurrences[at:]:
            rest: list[Token] | None = occurrence
            found: CorefileError | None = error if occurrence is occurrences[at] else None
            while rest:
                if found is not None:
                    rest = _without_line(rest, found)
                    if rest is None:
                        break
                former, found = found, None
                alone = Config(config.addresses)
                alone.root = config.root
                try:
                    super()._run(setup, name, rest, alone, traits)
                except CorefileError as another:
                    # An error of the directive's first line may come from the line that was left out.
                    if former is None or any((word.file, word.line) == (another.file, another.line) for word in _inner(rest)):
                        self._note(another, rest[0])
                        found = another
                run_hooks([handler.close for handler in alone.handlers], "Closing plugins")
                for suspicion in alone.suspicions:
                    self._add("warning", *suspicion)
                if found is None:
                    break

    def _check(self, config: Config, name: str, check: Hook) -> None:
        # A directive may miss another one whose set-up failed.
        if id(config) in self.broken:
            return
        try:
            super()._check(config, name, check)
        except CorefileError as error:
            self._note(error, Token(error.file, error.line, name))
        for suspicion in config.suspicions:
            self._add("warning", *suspicion)

    def _look(self, block: ServerBlock, config: Config) -> None:
        """Warnings for a configuration that is valid but probably a mistake."""
        first = min((words[0] for words in block.tokens.values()), key=lambda word: (word.file != self.source.file, word.line), default=None)
        if first is None or (id(config) not in self.answering and all(registry.known(name) for name in block.tokens)):
            place = first or block.place or Token(self.source.file, 0, "")
            zones = " ".join(block.keys)
            text = f"no plugin of the block `{zones}` answers queries: clients get {'SERVFAIL' if config.handlers else 'REFUSED'}"
            self._add("warning", place.file, place.line, text, "add forward, kubernetes, hosts, file or another plugin that answers")

    def _warn(self, text: str, word: Token) -> None:
        self._add("warning", word.file, word.line, text, "nothing to do where these files are optional")

    def _note(self, error: CorefileError, word: Token | None = None, directive: bool = True) -> None:
        """Add a problem. ``word`` is the token of its position unless the error has one."""
        text = str(error)
        place = PLACE.match(text)
        file, line = error.file, error.line
        if place and not line:
            file, line = place[1], int(place[2])
        if not line and word is not None:
            file, line = word.file, word.line
        message = PLACE.sub("", text)
        if word is not None and place and directive:
            message = f"plugin/{word.text}: {message}"
        hint = _hint(text, word if directive else None) or "; ".join(error.frames)
        if error.origin:
            message = f"{message}: {error.origin} would be left out (skip_broken)"
        # Errors that depend on the machine, not on the Corefile: this may not be a pod.
        severity = "warning" if error.origin or "in-cluster configuration" in text else "error"
        self._add(severity, file or self.source.file, line, message, hint)

    def _add(self, *values: Any) -> None:
        problem = Problem(*values)
        if problem not in self.problems:
            self.problems.append(problem)


def _occurrences(name: str, words: list[Token]) -> list[Token]:
    """The first word of each occurrence of a directive."""
    return [some[0] for some in occurrences_of(name, words)]


def _inner(occurrence: list[Token]) -> list[Token]:
    """The words behind its first line."""
    first = occurrence[0]
    return [word for word in occurrence if (word.file, word.line) != (first.file, first.line)]


def _without_line(occurrence: list[Token], error: CorefileError) -> list[Token] | None:
    """The occurrence without the line of an error; None where that is its first line, or holds a brace."""
    line = [word for word in _inner(occurrence) if (word.file, word.line) == (error.file, error.line)]
    if not line or any(word.text in ("{", "}") for word in line):
        return None
    return [word for word in occurrence if word not in line]


def _hint(text: str, word: Token | None) -> str:
    unknown = re.search(r"Unknown directive '([^']*)'", text)
    if unknown:
        near = difflib.get_close_matches(unknown[1].lower(), registry.in_order(), 1)
        return f"did you mean '{near[0]}'?" if near and unknown[1] not in GONE else "see `fastdns -plugins` for those that there are"
    for pattern, hint in HINTS + (GRAMMAR if word is None else ()):
        if re.search(pattern, text):
            return hint
    if word is None:
        return ""
    page = f"see the page of {word.text}" if word.text in registry.in_tree() else f"see the page of {registry.origin(word.text)}"
    forms = _syntax(word.text)
    wrong = re.search(r"(?:[Uu]nknown (?:property|option|directive|field):? '?|line ending after '|Unexpected token ')([\w./-]+)", text)
    if wrong:
        words = re.findall(r"[a-z_]{2,}", " ".join(forms))
        near = difflib.get_close_matches(wrong[1], words, 1)
        if near and wrong[1] not in words:
            return f"did you mean '{near[0]}'?"
    return f"the syntax is: {forms[0]}" if forms else page


def _syntax(directive: str) -> list[str]:
    """The syntax of a plugin from the section Syntax of its README, each form in one line."""
    folder = registry.folder_of(registry.in_tree().get(directive, "")) if directive in registry.in_tree() else ""
    try:
        with open(os.path.join(folder or os.devnull, "README.md"), encoding="utf-8") as page:
            section = page.read().partition("\n## Syntax\n")[2].partition("\n## ")[0]
    except OSError:
        return []
    forms = [re.sub(r"\s*\n\s*", "; ", form.strip()) for form in re.findall(r"^(?:~~~|```)\s?(?:txt)?\n(.*?)^(?:~~~|```)", section, re.M | re.S)]
    return [form.replace("{; ", "{ ").replace("; }", " }") for form in forms]
