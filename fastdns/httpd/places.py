"""Places for replies that take time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable

__all__ = ["Places"]


class Places:
    """So many at the same time. A client gets one while it holds fewer than are free: what is made for it cannot be stopped for others who come later."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[Hashable] = Counter()
        self._lock = threading.Lock()

    def take(self, client: Hashable) -> bool:
        """Whether the client has one more now."""
        with self._lock:
            if self._held[client] >= self._free:
                return False
            self._free -= 1
            self._held[client] += 1
            return True

    def leave(self, client: Hashable) -> None:
        with self._lock:
            self._free += 1
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]
