from fastdns._mux import NativeHandler

class AnyHandler(NativeHandler):
    """Answers every query of type ANY with one HINFO record."""
