"""The controller: the argument of a plugin's ``setup(controller)``, with its part of the Corefile and access to the server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fastdns.corefile.dispenser import Dispenser
from fastdns.corefile.duration import parse_duration, parse_float, parse_int, parse_uint
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.lexer import Token, tokens
from fastdns.corefile.zone import origins, parse_key
from fastdns.setup.config import Config, Hook, Hooks
from fastdns.setup.files import digest

__all__ = ["Controller"]

ONCE = "this plugin can only be used once per Server Block"


class Controller(Dispenser):
    """The arguments of all occurrences of one directive in one server block, and the block's configuration.

    A set-up runs once for each block. If it raises CorefileError, ValueError or OSError, the Corefile is rejected
    with the text ``plugin/NAME: MESSAGE``; exceptions made by `err` and its like add file and line.
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
        configs: Sequence[Config] = (),
        share: float = 1.0,
    ) -> None:
        super().__init__(words, file)
        #: The directive's name.
        self.directive = directive
        self.config = config
        self.hooks = hooks
        #: Values that plugins share across all blocks of this configuration; each plugin chooses its keys.
        self.values: dict[str, Any] = {} if values is None else values
        #: The running `fastdns.server.process.Process`; None in tests of a set-up alone.
        self.process = process
        #: The configurations of all blocks of the Corefile, in its order.
        self.configs: Sequence[Config] = configs or [config]
        #: Of the clients that this configuration serves at first: below 1 for a canary, until the functions of `on_started` with ``whole`` are called.
        self.share = share

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

    def path(self, name: str, *, reads: bool = True) -> str:
        """A path argument: a relative one starts at `root`. ``reads``: it is of what the plugin reads (`reads`), not of what it writes."""
        path = os.path.join(self.config.root, name) if self.config.root and not os.path.isabs(name) else name
        if reads:
            self.reads(path)
        return path

    def reads(self, path: str) -> None:
        """Say that the plugin reads a file or directory, before it does: *cache* outlasts a reload only if all of them are as they were."""
        if self.config.compares_files and path not in self.config.files:
            self.config.files[path] = digest(path)

    def zones(self, arguments: list[str]) -> list[str]:
        """The zones of a zone list: normalised, networks expanded, unusable ones dropped; without arguments those of the block."""
        if not arguments:
            return [address.zone for address in self.config.addresses]
        return [zone for argument in arguments for zone in origins(argument)]

    # ---- arguments, read from the cursor ----

    def once(self) -> bool:
        """`next` for a directive that may occur only once in a block: raises CorefileError at the second occurrence."""
        if not self.next():
            return False
        if self._cursor > 0:
            raise CorefileError(ONCE)
        return True

    def arg(self) -> str:
        """The next word of the line. Raises CorefileError when there is none."""
        if not self.next_arg():
            raise self.arg_err()
        return self.val()

    def one_arg(self) -> str:
        """The rest of the line, which must be one word. Raises CorefileError."""
        arguments = self.remaining_args()
        if len(arguments) != 1:
            raise self.arg_err()
        return arguments[0]

    def no_args(self) -> None:
        """Raises CorefileError when the line has a further word or an opening brace."""
        if self.next_arg():
            raise self.arg_err()

    def args(self, least: int, most: int | None = None) -> list[str]:
        """The rest of the line. Raises CorefileError unless it has ``least`` to ``most`` words (None: any number)."""
        arguments = self.remaining_args()
        if len(arguments) < least or (most is not None and len(arguments) > most):
            raise self.arg_err()
        return arguments

    def fallthrough(self) -> list[str]:
        """The zones of a ``fallthrough`` line: ``["."]`` (all names) when none are given."""
        arguments = self.remaining_args()
        return self.zones(arguments) if arguments else ["."]

    # ---- values; ValueError with Go's error text ----

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

    def suspect(self, text: str, hint: str = "", place: Token | None = None) -> None:
        """Report something that is valid and probably a mistake: a warning of ``fastdns check``, and nothing where it is served.

        ``place`` is where it is; the current line by default.
        """
        place = place or self.place()
        self.config.suspicions.append((place.file, place.line, f"plugin/{self.directive}: {text}", hint))

    # ---- hooks; each takes no argument and may raise ----

    def on_complete(self, check: Hook) -> None:
        """Called once all directives of the block are set up, also when a Corefile is only checked: for what depends on other directives."""
        self.config.checks.append((self.directive, check))

    def on_inspection(self, hook: Hook) -> None:
        """Called after the set-up where the Corefile is only checked: for what start-up hooks do where it is served, and `suspect`."""
        self.hooks.inspection.append(hook)

    def on_first_startup(self, hook: Hook) -> None:
        """Called at the start of the process, before `on_startup`; not at a reload."""
        self.hooks.first_startup.append(hook)

    def on_startup(self, hook: Hook) -> None:
        """Called before this configuration serves. An exception rejects the configuration."""
        self.hooks.startup.append(hook)

    def on_started(self, hook: Hook, *, whole: bool = False) -> None:
        """Called once this configuration serves. ``whole``: once it serves all clients, where a canary serves a share of them first.

        That is for what the process has once, such as the page of an address.
        """
        self.hooks.started.append(hook)
        if whole:
            self.hooks.whole.append(hook)

    def on_restart(self, hook: Hook) -> None:
        """Called before another configuration is loaded, to release addresses that it may use. An exception stops the reload."""
        self.hooks.restart.append(hook)

    def on_restart_failed(self, hook: Hook) -> None:
        """Called when the other configuration was rejected: this one continues to serve."""
        self.hooks.restart_failed.append(hook)

    def on_shutdown(self, hook: Hook) -> None:
        """Called when another configuration serves, when the process ends, or when this configuration is rejected after a start-up hook has run."""
        self.hooks.shutdown.append(hook)

    def on_upgrade(self, hook: Hook) -> None:
        """Called before another process is started that takes over from this one (SIGUSR2). This one goes on if that fails, and ends otherwise."""
        self.hooks.upgrade.append(hook)

    def on_final_shutdown(self, hook: Hook, seconds: float = 0.0) -> None:
        """Called when the process ends, after all `on_shutdown` functions, while still serving.

        ``seconds``: how long the function waits. The process is killed when its end takes 20 s more than all of these.
        """
        self.hooks.final_shutdown.append(hook)
        self.hooks.final_seconds += seconds
