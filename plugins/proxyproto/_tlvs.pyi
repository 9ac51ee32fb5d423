"""The label of proxyproto."""

from fastdns._mux import NativeHandler
from fastdns.walk.metadata import LabelHandle

class TlvPublisher(NativeHandler):
    """Publishes the TLVs of a query's PROXY header; the chain passes it by."""

    def __init__(self) -> None: ...
    def label(self, name: str) -> LabelHandle | None:
        """Publishes ``proxyproto/tlv``: the TLVs as hexadecimal digits, unset where there are none."""
