"""The chain's handler for a Python plugin."""

from typing import Any

from fastdns.executor.hooks import RequestHandler
from fastdns.walk.metadata import LabelHandle

class PythonHandler(RequestHandler):
    """The handler of a plugin object that has ``serve(query)`` or ``async serve(query, next)``; see plugin.Plugin.

    ``config`` is the Config of its server block; None in tests of the handler alone. It is kept weakly.
    """

    def __init__(self, name: str, plugin: Any, config: Any = None) -> None: ...
    def note(self) -> str:
        """For the page of `ready`: why queries get SERVFAIL at once; "" while they do not."""

    def metadata_label(self, text: str) -> LabelHandle | None:
        """The label of metadata of this name; that of an unset one if nobody publishes it, None once the block is gone."""

    def cluster(self) -> Any:
        """What the first handler of the block that has a method ``cluster_view()`` gives: a query.Cluster; or None."""
