"""What a plugin declares of itself, so that the server need not know it by name."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Traits"]


class Traits:
    """A module attribute ``TRAITS`` beside ``setup``. Raises ValueError for traits that exclude each other."""

    # No dataclass: that module takes a megabyte of others with it.
    __slots__ = ("answers", "any_class", "asks_others", "explain", "runs_in_check", "side_effects", "takes_over", "takes_updates")

    def __init__(
        self,
        *,
        answers: bool = True,
        any_class: bool = False,
        side_effects: bool = False,
        runs_in_check: bool = False,
        takes_over: bool = False,
        takes_updates: bool = False,
        asks_others: str = "",
        explain: Mapping[str, str] | None = None,
    ) -> None:
        if side_effects and runs_in_check:
            raise ValueError("a plugin with side effects does not run in check")
        #: It answers queries itself. `fastdns check` warns of a block in which no plugin does.
        self.answers = answers
        #: Its servers take queries of every class, CH among them; they refuse all but IN if no plugin of theirs has this.
        self.any_class = any_class
        #: It opens pages, runs commands, writes files, logs, counts or sends by itself. It is left out if a Corefile is only checked
        #: (`fastdns check`, `fastdns explain -conf`), and its `done` hook does not see the query of `fastdns explain`.
        self.side_effects = side_effects
        #: If a Corefile is only checked, its start-up hooks run and it is queried. Otherwise it is imported and set up there, and queries pass it by.
        self.runs_in_check = runs_in_check
        #: At a reload its handler takes over what that of the same block has (`Config.predecessor`), so the files that the block's plugins read are compared.
        self.takes_over = takes_over
        #: UPDATE messages (RFC 2136) for its block come to it; they are NOTIMP for a block in which no plugin takes them.
        self.takes_updates = takes_updates
        if asks_others not in ("", "first", "all"):
            raise ValueError("asks_others is 'first' or 'all'")
        #: It has other servers answer, so `fastdns diff` does not ask it. Which words of the directive's line are zones that it does that for: the "first",
        #: or "all", and without any those of the block.
        self.asks_others = asks_others
        #: Words of `fastdns explain` for what its handler did: hook and verdict (``query answered``) to text (``hit``).
        self.explain: Mapping[str, str] = explain or {}
