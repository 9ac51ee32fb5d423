"""A Corefile that answers questions in process, and asks nobody else where it is not told to: what `fastdns diff` compares."""

from __future__ import annotations

from typing import NamedTuple, cast

from fastdns.corefile.lexer import Token, occurrences_of, same_line
from fastdns.corefile.zone import origins
from fastdns.server.explain import Explained, NotAsked
from fastdns.server.source import Source
from fastdns.server.trial import Trial, Tried, ask_of
from fastdns.setup import Config, registry
from fastdns.setup.traits import Traits

__all__ = ["Offline", "Outcome"]

#: What acts on load or on repetition, and not on names.
LEFT_OUT = frozenset(("cache", "cookies", "loop", "rrl", "shed"))
#: Has no answers before a transfer, which nobody waits for.
NOT_ASKED = frozenset(("secondary",))
#: Seconds that one question may take, and where upstreams are asked.
PATIENCE, PATIENCE_ASKED = 2.0, 12.0


class Elsewhere(NamedTuple):
    """A directive whose plugin is not asked: other servers, or a program that only serves, would answer."""

    plugin: str
    zones: tuple[str, ...]
    excepted: tuple[str, ...]
    #: Whether it answers all questions in its zones, so that no plugin below is asked.
    is_last: bool
    #: As the Corefile has it, but for the lines `except`.
    text: str

    def takes(self, name: str) -> bool:
        """Of a name in lower case with a final dot."""
        return any(_is_below(name, zone) for zone in self.zones) and not any(_is_below(name, zone) for zone in self.excepted)


class Outcome(NamedTuple):
    """What becomes of a question."""

    #: ``reply``, ``elsewhere``, ``dropped``, ``refused``, ``transfer``, ``timeout``.
    outcome: str
    #: The zone that took it; "": none.
    zone: str
    #: Who answered, or would.
    plugin: str
    #: For each directive that would answer or take part: its text, and name and type of the question there.
    elsewhere: tuple[tuple[str, str, int], ...]
    #: The reply; empty where others would give it.
    message: bytes


class Configured(Tried):
    """A configuration without what acts on load, in which nobody else is asked."""

    asks_upstreams = False

    def __init__(self, source: Source, dns_port: str) -> None:
        #: Directives whose plugins are not asked, by the number that `NotAsked.tell` has.
        self.elsewhere: list[Elsewhere] = []
        self._name = ""
        super().__init__(source, dns_port)

    def asks(self, traits: Traits) -> bool:
        return traits.runs_in_check and (not traits.asks_others or (self.asks_upstreams and self._name not in NOT_ASKED))

    def _run(self, setup: registry.Setup | None, name: str, words: list[Token], config: Config, traits: Traits) -> None:
        if name in LEFT_OUT:
            return
        self._name = name
        before = len(config.handlers)
        super()._run(setup, name, words, config, traits)
        added = [handler for handler in config.handlers[before:] if isinstance(handler, NotAsked)]
        occurrences = occurrences_of(name, words)
        for index, handler in enumerate(added):
            handler.tell(len(self.elsewhere))
            own = [occurrences[index]] if len(added) == len(occurrences) else occurrences
            self.elsewhere.append(_directive(name, own, config, traits))


class Asking(Configured):
    """One in which upstreams are asked."""

    asks_upstreams = True


class Offline:
    """A Corefile set up and started for questions in process."""

    def __init__(self, source: Source, dns_port: str, asks_upstreams: bool = False, beside: Offline | None = None) -> None:
        """``beside``: one that is asked in turns with this, and closed after it. Raises CorefileError and whatever start-up hooks raise."""
        self.trial: Trial = Trial(source, dns_port, Asking if asks_upstreams else Configured, beside.trial if beside else None)
        self.seconds = PATIENCE_ASKED if asks_upstreams else PATIENCE

    @property
    def addresses(self) -> list[str]:
        return list(self.trial.instance.listeners)

    def zones(self) -> set[tuple[str, str, str]]:
        """Address, zone and view."""
        return {(server.address, address.zone, config.view) for server in self.trial.instance.servers for address, config in server.members}

    def ask(self, question: bytes, client: bytes, address: str) -> Outcome:
        """Raises ValueError for what is no query."""
        trial = self.trial
        explained = ask_of(trial.engine, trial.instance, trial.chains, address, question, client, seconds=self.seconds, forgets=True)
        return self._outcome(explained)

    def close(self) -> None:
        self.trial.close()

    def _outcome(self, explained: Explained) -> Outcome:
        directives = cast("Configured", self.trial.configuration).elsewhere
        elsewhere = []
        plugin = ""
        for step in explained.steps:
            if step.handler and step.hook != "reply" and step.verdict in ("answered", "failed", "dropped", "stream") and not step.depth:
                plugin = step.handler
            if step.hook != "query" or len(numbers := step.upstream.split()) != 2 or ":" in step.upstream:
                continue
            directive = directives[int(numbers[0])]
            if directive.takes(step.note.lower()):
                elsewhere.append((directive.text, step.note.lower(), int(numbers[1])))
                if directive.is_last and not step.depth:
                    return Outcome("elsewhere", explained.zone, directive.plugin, tuple(elsewhere), b"")
        return Outcome(explained.outcome, explained.zone, plugin, tuple(elsewhere), explained.message)


def _directive(name: str, occurrences: list[list[Token]], config: Config, traits: Traits) -> Elsewhere:
    own = tuple(address.zone for address in config.addresses)
    zones, excepted, lines = [], [], []
    for occurrence in occurrences:
        for number, line in enumerate(_lines(occurrence)):
            texts = [word.text for word in line]
            if texts[0] == "except" and number and traits.asks_others:
                excepted += [zone for text in texts[1:] for zone in origins(text)]
                continue
            if not number and traits.asks_others:
                arguments = [text for text in texts[1:] if text != "{"]
                zones += [zone for text in (arguments[:1] if traits.asks_others == "first" else arguments) for zone in origins(text)]
            lines.append(" ".join(texts))
    text = "; ".join(lines).replace("{; ", "{ ").replace("; }", " }")
    if text.endswith("{ }"):
        text = text[:-3].rstrip()
    return Elsewhere(name, tuple(zones) or own, tuple(excepted), bool(traits.asks_others), text)


def _lines(words: list[Token]) -> list[list[Token]]:
    lines: list[list[Token]] = []
    for index, word in enumerate(words):
        if index and same_line(words[index - 1], word):
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def _is_below(name: str, zone: str) -> bool:
    return zone == "." or name == zone or name.endswith(f".{zone}")
