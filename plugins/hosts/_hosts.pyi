from fastdns._mux import NativeHandler
from fastdns.index.index import Index
from fastdns.index.zone_list import ZoneList

class HostsHandler(NativeHandler):
    """Answers A, AAAA and PTR from a flat index.

    Names in ``fall`` that are not there go on down the chain; ``unsupported``: other types of any name in it do too.
    """

    #: Some name begins with ``*.``: look one label up where the name itself is not there.
    wildcards: bool

    def __init__(self, name: str, index: Index, zones: ZoneList, fall: ZoneList, unsupported: bool) -> None: ...
