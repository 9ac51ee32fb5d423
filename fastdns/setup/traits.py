"""What a plugin declares of itself, so that the server need not know it by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Traits"]


@dataclass(frozen=True, slots=True)
class Traits:
    """A module attribute ``TRAITS`` beside ``setup``. Raises ValueError for traits that exclude each other."""

    #: It answers queries itself. `fastdns check` warns of a block in which no plugin does.
    answers: bool = True

    #: Its servers take queries of every class, CH among them; they refuse all but IN where no plugin of theirs has this.
    any_class: bool = False

    #: It opens pages, runs commands, writes files, logs, counts or sends of its own accord. Where a Corefile is only tried (`fastdns check`, `fastdns
    #: explain -conf`) it is left out, and its `done` hook does not see the query of `fastdns explain`.
    side_effects: bool = False

    #: Where a Corefile is only tried, its start-up hooks run and it is asked. Otherwise it is imported and set up there, and queries pass it by.
    runs_in_check: bool = False

    #: Words of `fastdns explain` for what its handler did: hook and verdict (``query answered``) to text (``hit``).
    explain: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.side_effects and self.runs_in_check:
            raise ValueError("a plugin with side effects does not run in check")
