"""acl's handler."""

from collections.abc import Sequence

from fastdns._mux import NativeHandler
from fastdns.plugins.acl._cluster import ClusterNamesHandle, Unsynced
from fastdns.plugins.acl.rules import Rule
from fastdns.walk.metadata import LabelHandle

class AclHandler(NativeHandler):
    """Applies rules in their order; the first policy that matches decides.

    ``rules`` look at no more than NAMES_MAX names of clients' values, of VALUE_MAX octets each; else ValueError.
    """

    def __init__(self, name: str, rules: Sequence[Rule]) -> None: ...
    def use(self, name: str, label: LabelHandle) -> None:
        """Where one of `names_of` the rules is read, before the handler serves. Without it a client has none."""

    def use_cluster(self, cluster: ClusterNamesHandle) -> None:
        """Which namespaces questions are for, before the handler serves. Without it they are for none."""

    def use_unsynced(self, unsynced: Unsynced) -> None:
        """What tells that the cluster's state does not count any more, before the handler serves. Without it the last state always counts."""
