"""The controller: all that a plugin's ``setup(controller)`` sees of the Corefile and of the server."""

from __future__ import annotations

import os
from typing import Any

from fastdns.corefile.dispenser import Dispenser
from fastdns.corefile.duration import parse_duration, parse_float, parse_int, parse_uint
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token, tokens
from fastdns.corefile.zone import origins, parse_key
from fastdns.setup.config import Config, Hook, Hooks

__all__ = ["Controller"]

ONCE = "this plugin can only be used once per Server Block"


class Controller(Dispenser):
    """Arguments of one directive in one server block (all its occurrences), and the block that they are for.

    A set-up runs once for each block. What it raises as CorefileError, ValueError or OSError refuses the
    Corefile, told as ``plugin/NAME: MESSAGE``; errors made by `err` and its like also tell file and line.
    """

    def __init__(
        self,
        directive: str,
        words: list[Token],
        file: str,
        config: Config,
        hooks: Hooks,
        values: dict[str, Any] | None = None,
        process: Any = None,
    ) -> None:
        super().__init__(words, file)
        #: The directive's name.
        self.directive = directive
        self.config = config
        self.hooks = hooks
        #: Values of plugins by a key of theirs, for all blocks of this configuration.
        self.values: dict[str, Any] = {} if values is None else values
        #: The running `fastdns.server.process.Process`; None in tests of a set-up alone.
        self.process = process

    @classmethod
    def of(cls, text: str, keys: list[str] | None = None, file: str = "Testfile") -> Controller:
        """A controller for a directive given as text, for tests; ``keys`` are those of its block (default ``.``)."""
        words = tokens(text, file)
        addresses = [address for key in keys or ["."] for address in parse_key(key, "53")]
        return cls(words[0].text if words else "", words, file, Config(addresses), Hooks())

    # ---- the block ----

    @property
    def server_block_keys(self) -> list[str]:
        """The block's keys as ``scheme://zone.:port``, networks expanded."""
        return [str(address) for address in self.config.addresses]

    @property
    def key(self) -> str:
        """The first of `server_block_keys`."""
        return str(self.config.addresses[0])

    @property
    def root(self) -> str:
        """What `root` gave in this block, or ""."""
        return self.config.root

    def path(self, name: str) -> str:
        """A path argument: a relative one starts at `root`."""
        return os.path.join(self.config.root, name) if self.config.root and not os.path.isabs(name) else name

    def zones(self, arguments: list[str]) -> list[str]:
        """The zones of a zone list: normalised, networks expanded, unusable ones dropped; without arguments those of the block."""
        if not arguments:
            return [address.zone for address in self.config.addresses]
        return [zone for argument in arguments for zone in origins(argument)]

    # ---- arguments, read from the cursor ----

    def once(self) -> bool:
        """``next()`` for a directive that may stand in a block only once: raises for the second. Use it in place of `next`."""
        if not self.next():
            return False
        if self._cursor > 0:
            raise CorefileError(ONCE)
        return True

    def arg(self) -> str:
        """The next word of the line; raises when there is none."""
        if not self.next_arg():
            raise self.arg_err()
        return self.val()

    def one_arg(self) -> str:
        """The one word that the rest of the line must be."""
        arguments = self.remaining_args()
        if len(arguments) != 1:
            raise self.arg_err()
        return arguments[0]

    def no_args(self) -> None:
        """Raises when the line goes on, even if only with a block."""
        if self.next_arg():
            raise self.arg_err()

    def args(self, least: int, most: int | None = None) -> list[str]:
        """The rest of the line; raises unless it has ``least`` to ``most`` words (None: any number)."""
        arguments = self.remaining_args()
        if len(arguments) < least or (most is not None and len(arguments) > most):
            raise self.arg_err()
        return arguments

    def fallthrough(self) -> list[str]:
        """The zones of a ``fallthrough`` line: ``["."]`` (all names) when none are given."""
        arguments = self.remaining_args()
        return self.zones(arguments) if arguments else ["."]

    # ---- values; ValueError as Go words it ----

    def duration(self, text: str) -> int:
        """Nanoseconds of a Go duration."""
        return parse_duration(text)

    def seconds(self, text: str) -> float:
        """Seconds of a Go duration."""
        return parse_duration(text) / 1e9

    def integer(self, text: str) -> int:
        """A whole number."""
        return parse_int(text)

    def unsigned(self, text: str, bits: int = 64) -> int:
        """A whole number from 0."""
        return parse_uint(text, bits)

    def decimal(self, text: str) -> float:
        """A number with a fraction."""
        return parse_float(text)

    # ---- hooks; each takes no argument and may raise ----

    def on_complete(self, check: Hook) -> None:
        """Once every directive is set up, also where a Corefile is only checked: what this one wants of others in its block."""
        self.config.checks.append((self.directive, check))

    def on_first_startup(self, hook: Hook) -> None:
        """At the process's start, before `on_startup`; not at a restart."""
        self.hooks.first_startup.append(hook)

    def on_startup(self, hook: Hook) -> None:
        """Before this configuration serves. A failure refuses it."""
        self.hooks.startup.append(hook)

    def on_started(self, hook: Hook) -> None:
        """Once this configuration serves."""
        self.hooks.started.append(hook)

    def on_restart(self, hook: Hook) -> None:
        """Before another configuration is loaded: release addresses that it may want. A failure stops the restart."""
        self.hooks.restart.append(hook)

    def on_restart_failed(self, hook: Hook) -> None:
        """The other configuration did not load: this one goes on."""
        self.hooks.restart_failed.append(hook)

    def on_shutdown(self, hook: Hook) -> None:
        """Another configuration has taken over, the process ends, or this configuration is refused after a start-up hook of the directive has run."""
        self.hooks.shutdown.append(hook)

    def on_final_shutdown(self, hook: Hook) -> None:
        """The process ends; after every `on_shutdown`, while still serving."""
        self.hooks.final_shutdown.append(hook)
