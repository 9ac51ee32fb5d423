"""Search paths of pods, for plugin autopath."""

from collections.abc import Iterable

from fastdns.plugins.autopath._autopath import SearchPathHandle
from fastdns.plugins.kubernetes._handler import ViewHandler

def search_path(handler: ViewHandler, search: Iterable[str]) -> SearchPathHandle:
    """What a pod's resolver would try: its namespace, svc and the zone, then ``search``, then the name as it is.

    Only clients whose address is that of a watched pod (``pods verified``) have one.
    """
