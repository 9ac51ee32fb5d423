from typing import ClassVar

from fastdns._mux import NativeHandler

class NsidHandler(NativeHandler):
    """Puts ``data`` as NSID into the OPT of replies to queries that ask for it."""

    #: Octets that an identifier may have.
    MOST: ClassVar[int]

    def __init__(self, name: str, data: bytes) -> None: ...
