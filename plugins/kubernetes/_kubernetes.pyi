"""The native handler of kubernetes."""

from collections.abc import Iterable

from fastdns._mux import NativeHandler
from fastdns.plugins.autopath._autopath import SearchPathHandle
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.walk.metadata import LabelHandle

class Kubernetes(NativeHandler):
    """Answers for the zones of one server block out of a store.

    ``zones`` have their final dot; ``primary`` is the one that PTR records point into; ``multicluster`` are those of ``zones`` that show service
    imports; ``fallthrough`` None means never, ``kinds`` are the bits of the kinds that must have been listed before a name can be denied,
    ``pods`` is ``disabled``, ``insecure`` or ``verified``; ``addresses`` are this machine's. Raises ValueError for what is no name or address.
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
        namespaces: Iterable[str] = (),
        fallthrough: Iterable[str] | None = None,
        ttl: int = 5,
        kinds: int = 0,
        pods: str = "disabled",
        pod_names: bool = False,
        no_endpoints: bool = False,
        ignore_empty: bool = False,
        zonal: bool = False,
        addresses: Iterable[str] = (),
    ) -> None: ...
    def ready(self) -> bool:
        """Whether every kind that this handler needs has been listed."""

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """All records of a zone, for plugin transfer; None when it is in none of this handler's zones."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``kubernetes/NAME``."""

    def client_label(self, name: str) -> LabelHandle | None:
        """``client-namespace`` or ``client-label/KEY`` of the pod that asks, where it is certain, for policy; None where pods are not verified."""

    def search_path(self) -> SearchPathHandle:
        """The search path of each client that is a pod, for plugin autopath."""

    def question_path(self) -> SearchPathHandle:
        """The search path of the namespace that stands in the question, likewise."""
