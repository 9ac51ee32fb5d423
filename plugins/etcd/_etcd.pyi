"""The native handler of etcd."""

from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.plugins.etcd._snapshot import Records

class EtcdHandler(NativeHandler):
    """Answers for ``zones`` out of records. ``fallthrough`` None means never; ``least`` and ``most`` bound what a lease gives as TTL, in seconds.

    Without ``apex_fallback`` the zone's own name has the addresses below ``apex.dns`` and no others.
    """

    def __init__(
        self,
        records: Records,
        zones: Iterable[str],
        *,
        fallthrough: Iterable[str] | None = None,
        least: int = 30,
        most: int = 86400,
        apex_fallback: bool = True,
    ) -> None: ...
