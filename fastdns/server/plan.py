"""What is served: addresses, zones and chains of a configuration, for `fastdns plan` and the section `plan` of the running server."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Any

from fastdns.server.configuration import Configuration
from fastdns.setup import Config, registry

__all__ = ["about", "describe"]

#: The section Name of a plugin's page, as in ``*cache* - caches replies.``
ABOUT = r"(?ms)^## Name\s+\*.+?\* - (.+?)(?:\.\s|\.?\n\n)"


def describe(configuration: Configuration) -> list[dict[str, Any]]:
    """The servers, each with its zones, and these with their chain and the directives beside it."""
    return [
        {
            "address": server.address,
            "zones": [
                {
                    "zone": address.zone,
                    "block": configuration.configs.index(config) + 1,
                    "place": _place(configuration, config),
                    "view": config.view,
                    "filters": len(config.filters),
                    "chain": _chain(config),
                    "beside": _beside(config),
                }
                for address, config in server.members
            ],
        }
        for server in configuration.servers
    ]


@functools.cache
def about(directive: str) -> str:
    """What a plugin does, as its page begins; "" where it has none."""
    folder = registry.folder_of(registry.in_tree().get(directive, "")) if directive in registry.in_tree() else ""
    try:
        with open(os.path.join(folder or os.devnull, "README.md"), encoding="utf-8") as page:
            found = re.search(ABOUT, page.read(4096))
    except OSError:
        return ""
    return " ".join(found[1].replace("`", "").replace("*", "").split()) if found else ""


def _chain(config: Config) -> list[dict[str, Any]]:
    """The handlers in the order of the chain; each runs natively or in a Python executor, and answers itself or acts on the answers of others."""
    python = getattr(sys.modules.get("fastdns.executor.handler"), "PythonHandler", ())
    return [
        {
            "name": handler.name,
            "runs": "Python executor" if python and isinstance(handler, python) else "native",
            "answers": registry.traits(handler.name).answers,
            "does": about(handler.name),
        }
        for handler in config.handlers
    ]


def _place(configuration: Configuration, config: Config) -> str:
    """File and line of the block's first key."""
    file, line = config.place
    return f"{file}:{line}" if line else configuration.source.file


def _beside(config: Config) -> list[str]:
    """Directives of the block that have no handler in its chain."""
    steps = {handler.name for handler in config.handlers}
    return [name for name in config.directives if name not in steps and not (name == "proxy" and "forward" in steps)]
