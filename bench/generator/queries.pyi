"""A workload packed into messages that native threads send and check the replies to."""

from fastdns.bench.workload import Workload

class QuerySet:
    """The messages of a workload, their sequence and what is known of the right replies.

    ``udp_size`` above 0 or ``do`` add an OPT record (RFC 6891; size 1232 unless given); ``rd`` asks for recursion.
    ValueError for a workload whose names, rdata or sequence are none.
    """

    @property
    def label(self) -> str: ...
    @property
    def edns(self) -> bool: ...
    def __init__(self, workload: Workload, *, udp_size: int = 0, do: bool = False, rd: bool = True) -> None: ...
    def __len__(self) -> int:
        """How many distinct questions."""

    def message(self, number: int) -> bytes:
        """The query for one of the questions, with id 0."""
