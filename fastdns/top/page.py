"""The page of `fastdns top` in a terminal, by rich: drawn after each reading and each key."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from fastdns.top.screen import overview, screen
from fastdns.top.servers import Servers
from fastdns.top.state import State

__all__ = ["once", "run"]

#: Lines around the rows of a table.
AROUND = 9
#: Seconds for the rest of a key's sequence.
SEQUENCE = 0.05
KEYS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b": "esc"}


def once(servers: Servers, window: int, seconds: float) -> int:
    """Print the overview of so many seconds."""
    state = State(window=window)
    servers.read(state.request())
    if servers.answered:
        time.sleep(seconds)
        servers.read(state.request())
    Console(highlight=False).print(overview(servers, state))
    return 0 if len(servers.answered) == len(servers.sources) else 1


def run(servers: Servers, window: int, interval: float) -> int:
    """Show the page until q. Raises ValueError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("the page needs a terminal; -once prints it, -once -json is for scripts")
    state = State(window=window)
    console = Console(highlight=False)
    reader = Reader(servers, state, interval)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        resized = signal.signal(signal.SIGWINCH, lambda *_: reader.wake())
        reader.start()
        try:
            while True:
                state.page = max(3, console.size.height - AROUND)
                with reader.lock:
                    live.update(screen(servers, state, console.size.height), refresh=True)
                for key in _pressed(reader.ready):
                    with reader.lock:
                        if not state.press(key):
                            return 0
                    reader.hurry()
        finally:
            signal.signal(signal.SIGWINCH, resized)
            reader.stop()


class Reader:
    """Reads the servers on a thread, so that keys work while one does not answer."""

    def __init__(self, servers: Servers, state: State, interval: float) -> None:
        self.servers = servers
        self.state = state
        self.interval = interval
        #: Held while what is shown changes.
        self.lock = threading.Lock()
        self.ready, self._told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._soon = threading.Event()
        self._over = False
        self._asked: dict[str, object] = {}

    def start(self) -> None:
        threading.Thread(target=self._run, name="reader", daemon=True).start()

    def stop(self) -> None:
        self._over = True
        self._soon.set()

    def hurry(self) -> None:
        """Read at once if what is asked has changed."""
        if self.state.request() != self._asked:
            self._soon.set()

    def wake(self) -> None:
        """Have the page drawn."""
        try:
            os.write(self._told, b".")
        except BlockingIOError:
            pass

    def _run(self) -> None:
        while not self._over:
            if not self.state.paused:
                self._asked = self.state.request()
                found = self.servers.fetch(self._asked)
                with self.lock:
                    self.servers.take(found)
                    self.state.remember(self.servers.rates)
                self.wake()
            self._soon.wait(self.interval)
            self._soon.clear()


@contextmanager
def _keys() -> Iterator[None]:
    """Keys come one by one and are not shown; the terminal is as before afterwards."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(ready: int) -> list[str]:
    """Waits for keys, or for something new to show: then there are none."""
    found, _, _ = select.select([sys.stdin, ready], [], [])
    if ready in found:
        os.read(ready, 4096)
    if sys.stdin not in found:
        return []
    octets = os.read(sys.stdin.fileno(), 64)
    if not octets:
        return ["q"]  # the terminal is gone
    if octets == b"\x1b" and select.select([sys.stdin], [], [], SEQUENCE)[0]:
        octets += os.read(sys.stdin.fileno(), 8)
    return [KEYS[octets]] if octets in KEYS else list(octets.decode("utf-8", "ignore"))
