"""on: runs commands when the server starts and ends."""

from __future__ import annotations

import shlex
import signal
import subprocess
import threading
import uuid
from typing import NamedTuple

from fastdns.corefile.errors import quoted, system_error
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log, write

__all__ = ["EVENTS", "Command", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log()

#: There are no certificates that fastdns renews, so nothing ever happens at `certrenew`.
EVENTS = ("startup", "shutdown", "certrenew")

QUOTING = {"No closing quotation": "EOF found when expecting closing quote.", "No escaped character": "EOF found after escape character"}


def setup(controller: Controller) -> None:
    """``on EVENT COMMAND [ARGS...] [&]``"""
    for command in parse(controller):
        if command.event == "startup":
            controller.on_started(command.run, whole=True)
        elif command.event == "shutdown":
            controller.on_final_shutdown(command.run)


class Command(NamedTuple):
    """A program, its arguments, and when it is run."""

    event: str
    words: tuple[str, ...]
    #: The server does not wait for its end.
    background: bool
    #: What tells it from others in the log.
    id: str

    def run(self) -> None:
        """Run it. What goes wrong is logged, and stops nothing."""
        kind = "Nonblocking" if self.background else "Blocking"
        log.info(f'{kind} Command "{self.words[0]} {" ".join(self.words[1:])}" with ID {self.id}')
        try:
            process = subprocess.Popen(self.words)
        except OSError as error:
            reason = (
                f"exec: {quoted(self.words[0])}: executable file not found in $PATH"
                if isinstance(error, FileNotFoundError) and "/" not in self.words[0]
                else system_error(error, "fork/exec", self.words[0])
            )
            self._failed(reason)
            return
        if self.background:
            threading.Thread(target=process.wait, name="on", daemon=True).start()
            return
        status = process.wait()
        if status:
            self._failed(f"exit status {status}" if status > 0 else f"signal: {signal.strsignal(-status) or -status}".lower())

    def _failed(self, reason: str) -> None:
        write(f"error on 'on-{self.id}' hook: {reason}")


def parse(controller: Controller) -> list[Command]:
    """The commands in the order of the block. Raises CorefileError."""
    commands = []
    while controller.next():
        event = controller.arg()
        if event.lower() not in EVENTS:
            raise controller.err(f"Wrong event name or event not supported: '{event}'")
        text = " ".join(controller.remaining_args())
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise controller.err(f"error parsing command: {QUOTING.get(str(error), error)}") from None
        if not words:
            raise controller.err(f"no command contained in '{text}'")
        background = len(words) > 1 and words[-1] == "&"
        commands.append(Command(event.lower(), tuple(words[:-1] if background else words), background, str(uuid.uuid4())))
    return commands
