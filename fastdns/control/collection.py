"""Memory of configurations that no longer serve: hooks, handlers and plugins refer to each other in cycles, which the garbage collector would find late."""

from __future__ import annotations

import gc
import threading
import time

from fastdns.system import memory
from fastdns.telemetry.log import Log

__all__ = ["Collector"]

log = Log()

#: Seconds between the end of a configuration and the collection: threads that were told to end have ended, and several reloads are one.
DELAY = 1.0


class Collector:
    """A thread that collects garbage when it is asked to, and gives free memory back. It holds the GIL for some 100 ns for each object of the process."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def ask(self) -> None:
        """A configuration has ended, or begins to."""
        self._asked.set()
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="collector", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # with the next one
                    log.warning(f"Memory of the previous configuration is not collected yet: {error}")
                    return
                self._thread = thread

    def _run(self) -> None:
        while True:
            self._asked.wait()
            time.sleep(DELAY)
            self._asked.clear()
            gc.collect()
            memory.give_back()
