from fastdns._mux import NativeHandler

class MinimalHandler(NativeHandler):
    """Drops authority and additional section of positive answers."""
