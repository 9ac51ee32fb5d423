from fastdns._mux import NativeHandler

class ShedHandler(NativeHandler):
    """Lets replies wait for the sockets that they leave through, and drops queries where too many do."""

    def __init__(self, name: str, age: int) -> None:
        """``age``: nanoseconds after which a query is not answered while the server is overloaded; 0: at any age."""
