from fastdns._mux import NativeHandler

class Whoami(NativeHandler):
    """Answers every query with the client's address and port in the additional section."""
