from fastdns._mux import NativeHandler

class Stuck(NativeHandler):
    def __init__(self, name: str, path: str) -> None: ...
