"""What the server tells of itself to `fastdns top`, the console and scripts: a document of sections, each provided by a part of the server or a plugin.

Commands are apart from sections: they change something, and only the control socket takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Provider", "perform", "provide", "report", "sections", "take_commands", "withdraw"]

#: Makes a section, of values that JSON has. Its argument is the request, whose members it may read. ValueError, KeyError and TypeError go to who asks.
Provider = Callable[[Mapping[str, Any]], Any]

_providers: dict[str, Provider] = {}
_commands: dict[str, Provider] = {}
_lock = threading.Lock()


def provide(section: str, provider: Provider) -> None:
    """Provide a section from now on, in the place of who did before: the next configuration's plugin starts before the last one's stops."""
    with _lock:
        _providers[section] = provider


def withdraw(section: str, provider: Provider) -> None:
    """End that, unless somebody else provides the section meanwhile."""
    with _lock:
        if _providers.get(section) is provider:
            del _providers[section]


def sections() -> list[str]:
    """The names of all sections."""
    with _lock:
        return sorted(_providers)


def report(names: Sequence[str] = (), request: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """These sections, or all. A name that nobody provides is left out: its plugin is not in the Corefile."""
    with _lock:
        chosen = {name: provider for name, provider in sorted(_providers.items()) if not names or name in names}
    return {name: provider(request or {}) for name, provider in chosen.items()}


def take_commands(name: str, function: Provider | None) -> None:
    """Have ``function`` carry out the commands of this name from now on; None: nobody does. Its argument and its result are as those of a `Provider`."""
    with _lock:
        if function is None:
            _commands.pop(name, None)
        else:
            _commands[name] = function


def perform(name: str, request: Mapping[str, Any]) -> Any:
    """Carry out a command. Raises ValueError where its plugin is not in the Corefile."""
    with _lock:
        function = _commands.get(name)
    if function is None:
        raise ValueError(f"the Corefile that is served has no {name}")
    return function(request)
