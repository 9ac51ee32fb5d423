"""The handler of filter_aaaa and filter_a."""

from fastdns._mux import NativeHandler
from fastdns.plugins.acl._cluster import ClusterNamesHandle
from fastdns.plugins.filter_aaaa.rules import Rule
from fastdns.walk.metadata import LabelHandle

class FilterHandler(NativeHandler):
    """Withholds AAAA records, with ``is_ipv4`` A records, where one of ``rules`` holds. MemoryError, ValueError for a namespace that is too long."""

    def __init__(self, name: str, rules: list[Rule], is_ipv4: bool) -> None: ...
    def use(self, namespace: LabelHandle) -> None:
        """Where a client's namespace is read, before the handler serves."""
    def use_cluster(self, cluster: ClusterNamesHandle) -> None:
        """What knows the SOA of the cluster's zones, before the handler serves."""
