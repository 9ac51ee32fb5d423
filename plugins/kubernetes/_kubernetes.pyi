"""The native handler of kubernetes."""

from fastdns.index.zone_list import ZoneList
from fastdns.plugins.acl._cluster import ClusterNamesHandle, Unsynced
from fastdns.plugins.autopath._autopath import SearchPathHandle
from fastdns.plugins.kubernetes._cluster import ClusterView
from fastdns.plugins.kubernetes._handler import ViewHandler
from fastdns.plugins.kubernetes.name_observer import NameObserver
from fastdns.plugins.kubernetes.watch.problems import Problems
from fastdns.plugins.kubernetes.zone.journal import ZoneJournal
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.walk.metadata import LabelHandle

class Kubernetes(ViewHandler):
    """Answers for the zones of one server block out of a store."""

    #: Of the zones that have one, by their name in lower-case wire form.
    journals: dict[bytes, ZoneJournal]
    problems: Problems | None

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """A zone's records, or what has changed of them, for plugin transfer; None when it is in none of this handler's zones."""

    def transfer_size(self, zone: bytes, serial: int | None) -> int:
        """The number of records that `transfer` would give, roughly; 0: it is none of this handler's zones."""

    def label(self, name: str) -> LabelHandle | None:
        """Publishes metadata ``kubernetes/NAME``."""

    def client_label(self, name: str) -> LabelHandle | None:
        """``client-namespace``, ``client-pod-name`` or ``client-label/KEY`` of the pod that asks, where it is certain, for policy, and ``client-kind``:
        whether it is a pod, the node of one (`hostNetwork`) or ``unknown``. None where pods are not verified."""

    def cluster_names(self, *, guarded: bool) -> ClusterNamesHandle:
        """Which namespaces a question is for, for policy. From then on the alias of an ExternalName Service into another namespace is a question
        of its own, which passes the server's chain."""

    def unsynced(self, mode: str, after: float) -> Unsynced:
        """What tells that rights which depend on the cluster are denied: ``mode`` and ``after`` as in `fastdns.plugins.kubernetes.watch.problems.Gate`."""

    def cluster_view(self) -> ClusterView:
        """What plugins in Python may look up in the store."""

    def name_observer(self, unkept: ZoneList) -> NameObserver | None:
        """Who tells a cache above which names change; None where it keeps nothing of the zones (``unkept``)."""

    def search_path(self) -> SearchPathHandle:
        """The search path of each client that is a pod, for plugin autopath."""

    def question_path(self) -> SearchPathHandle:
        """The search path of the namespace that stands in the question, likewise."""
