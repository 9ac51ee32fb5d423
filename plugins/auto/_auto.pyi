from collections.abc import Iterable

from fastdns.index.zone import ZoneSet
from fastdns.plugins.file._file import FileHandler

class AutoHandler(FileHandler):
    """Answers names of ``origins`` from the zones that a set has at the time, and gives those away."""

    def __init__(self, name: str, zones: ZoneSet, *, origins: Iterable[str]) -> None: ...
