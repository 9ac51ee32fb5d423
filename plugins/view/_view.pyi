from fastdns._mux import NativeHandler
from fastdns.expression.evaluate import Code
from fastdns.setup.config import Config
from fastdns.walk.metadata import LabelHandle

class ViewFilter(NativeHandler):
    """Holds for queries for which all expressions are true."""

    def __init__(self, view: str, codes: list[Code]) -> None: ...
    def resolve(self, config: Config) -> None:
        """Looks up the labels of metadata that the expressions name; before the chain is published."""
    def label(self, name: str) -> LabelHandle | None:
        """Publishes ``view/name``."""
