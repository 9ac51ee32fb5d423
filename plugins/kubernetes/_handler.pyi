"""The view that a handler of kubernetes answers from."""

from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.plugins.kubernetes.store.store import Store

class ViewHandler(NativeHandler):
    """A store as the zones and properties of one server block show it.

    ``zones`` have their final dot; ``primary`` is the one that PTR records point into; ``multicluster`` are those of ``zones`` that show service
    imports; ``fallthrough`` None means never, ``kinds`` are the bits of the kinds that must have been listed before a name can be denied,
    ``objects`` is the one of ``zones`` in which replicas find the objects, or "", with what ``extras`` has of EXTRA_LABELS and EXTRA_PLACES (zone/objects),
    and ``replica`` says that the store has them from there.
    ``pods`` is ``disabled``, ``insecure`` or ``verified``; ``addresses`` are this machine's; ``near`` has
    bit 1 for endpoints of the client's node, 2 for its zone, 4 for no others. Raises ValueError for what is no name or address.
    """

    store: Store

    def __init__(
        self,
        name: str,
        store: Store,
        zones: Iterable[str],
        primary: str,
        *,
        multicluster: Iterable[str] = (),
        objects: str = "",
        extras: int = 0,
        namespaces: Iterable[str] = (),
        fallthrough: Iterable[str] | None = None,
        ttl: int = 5,
        kinds: int = 0,
        pods: str = "disabled",
        pod_names: bool = False,
        no_endpoints: bool = False,
        ignore_empty: bool = False,
        zonal: bool = False,
        replica: bool = False,
        addresses: Iterable[str] = (),
        near: int = 0,
    ) -> None: ...
    def ready(self) -> bool:
        """Whether every kind that this handler needs has been listed."""
