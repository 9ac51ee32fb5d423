"""The Python lane: see executor/executor.pxd, and query.py for what plugins use."""

from typing import Any

from fastdns._mux import NativeHandler
from fastdns.executor.verdicts import Verdicts

class PythonHandler(NativeHandler):
    """The chain's handler for a plugin object that has ``serve(query)`` or ``async serve(query, next)``; see plugin.Plugin."""

    serve: Any
    waits: bool
    zones: Any
    deadline: int
    verdicts: Verdicts
    def __init__(self, name: str, plugin: Any) -> None: ...
