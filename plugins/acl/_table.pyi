"""Policies as sets; the native side is in ``_table.pxd``."""

from collections.abc import Sequence

from fastdns.plugins.acl.rules import Policy

class PolicyTable:
    """Up to TABLE_MAX policies in the order of the Corefile.

    ``lines`` are place, number of the directive and policy. ``zones`` are, for each zone of the directives with most labels first, the numbers of the
    directives that apply to names whose longest zone it is. ``names`` are those of `names_of`, of which policies know their numbers. Raises ValueError for too
    many policies or names and for values that are too long.
    """

    #: Octets of its sets, networks, policies and values.
    size: int

    def __init__(self, lines: list[tuple[int, int, Policy]], zones: Sequence[set[int]], names: list[str]) -> None: ...
