from fastdns._mux import NativeHandler

class ChaosHandler(NativeHandler):
    """Answers CH TXT queries for the server's version, authors and host name, each given as the rdata of a TXT record.

    Raises ValueError for more authors than a reply holds.
    """

    def __init__(self, name: str, version: bytes, authors: list[bytes], host: bytes) -> None: ...
