"""The executor of a Python plugin: see executor/executor.pxd, and plugin.py for what plugins use."""

from typing import Any

class Executor:
    """The queue and the thread of one plugin object."""

    name: str
    plugin: Any
    waits: bool
    #: Nanoseconds.
    deadline: int
    @property
    def stuck(self) -> int:
        """The number of threads left behind that have not come back."""

    #: Why queries get SERVFAIL at once; "" while they do not.
    problem: str

    def under_way(self) -> tuple[int, str]:
        """When the call that is under way began (ns, monotonic; 0: none is), and a text that says on which query and in which line."""
