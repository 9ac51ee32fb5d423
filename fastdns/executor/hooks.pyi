"""The worker's side of a Python plugin."""

from typing import Any

from fastdns._mux import NativeHandler
from fastdns.executor.verdicts import Verdicts

class RequestHandler(NativeHandler):
    """Makes requests of queries; see handler.PythonHandler."""

    serve: Any
    waits: bool
    zones: Any
    deadline: int
    verdicts: Verdicts
    def __init__(self, name: str, plugin: Any) -> None: ...
