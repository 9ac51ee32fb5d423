from collections.abc import Iterable

from fastdns.index.zone import ZoneSet
from fastdns.plugins.file._file import FileHandler

class ObjectHandler(FileHandler):
    """Answers from zones as *file* does; names in ``fall`` that are not there go on down the chain. The names ``hosts`` exist without records too."""

    def __init__(self, name: str, zones: ZoneSet, fall: Iterable[str] = (), *, hosts: Iterable[str] = ()) -> None: ...
