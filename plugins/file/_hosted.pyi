from collections.abc import Iterable

from fastdns.index.zone import ZoneSet
from fastdns.plugins.file._file import FileHandler

class HostedHandler(FileHandler):
    """Answers from hosted zones as *file* does; names in ``fall`` that are not there, or delegated, go on down the chain.

    ``others`` are the sets of the second, third, … zones of one name. *transfer* gives the first ones.
    """

    def __init__(self, name: str, zones: ZoneSet, fall: Iterable[str] = (), *, others: Iterable[ZoneSet] = ()) -> None: ...
