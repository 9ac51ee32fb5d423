"""The handler of *slo*."""

from fastdns._mux import NativeHandler

class SloHandler(NativeHandler):
    """SloHandler(name, share, objective): ``share`` of the queries, from 0 to 1, are to be answered within ``objective`` nanoseconds."""

    def __init__(self, name: str, share: float, objective: int) -> None: ...
