"""The command ``fastdns-node``."""

from __future__ import annotations

import os
import sys

from fastdns.server import early

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` would delay `early.install`
    from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its status."""
    early.install()
    from fastdns.node.flags import USAGE, parse
    from fastdns.server.flags import FlagError

    if sys.argv[1:2] in (["-version"], ["--version"], ["-plugins"], ["--plugins"]):
        from fastdns.server import cli

        cli.main()
    try:
        flags = parse(sys.argv[1:])
    except FlagError as error:
        _end(2, f"{error}\n{USAGE}")
    if flags.help:
        _end(0, USAGE)
    try:
        flags.validate()
    except ValueError as error:
        _end(1, f"[FATAL] Error parsing flags - {error}, Exiting\n")

    from fastdns.node.signals import Signals
    from fastdns.telemetry import log

    log.set_json(flags.log_format == "json")

    signals = Signals()
    if flags.hold:
        from fastdns.node.holder import hold

        try:
            status = hold(flags, signals)
        except OSError as error:
            _end(1, f"[FATAL] Keeping sockets - {error}\n")
        log.flush()
        _end(status, "")
    from fastdns.node.cache import NodeCache

    _end(NodeCache(flags, signals).run(), "")


def _end(status: int, text: str) -> NoReturn:
    sys.stderr.write(text)
    sys.stderr.flush()
    os._exit(status)
