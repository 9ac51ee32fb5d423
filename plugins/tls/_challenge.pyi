from fastdns._mux import NativeHandler
from fastdns.index.index import Index

class ChallengeHandler(NativeHandler):
    """Answers the TXT records of a flat index; all other queries go on down the chain."""

    def __init__(self, name: str, index: Index) -> None: ...
