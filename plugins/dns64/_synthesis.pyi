from fastdns._mux import NativeHandler

class SynthesisHandler(NativeHandler):
    """Replaces replies without addresses of one family by those that are made of the other one's; *dns64* and *siit* subclass it in Cython."""
