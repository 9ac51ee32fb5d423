"""acl's handler."""

from collections.abc import Sequence

from fastdns._mux import NativeHandler
from fastdns.plugins.acl import Rule

class AclHandler(NativeHandler):
    """Applies rules in their order; the first policy that matches decides."""

    def __init__(self, name: str, rules: Sequence[Rule]) -> None: ...
