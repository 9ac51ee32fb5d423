from fastdns.plugins.dns64._synthesis import SynthesisHandler

class Dns64Handler(SynthesisHandler):
    """Makes AAAA records below ``prefix`` (4 to 12 octets) where there are none, or always with ``translate_all``."""

    def __init__(self, name: str, prefix: bytes, translate_all: bool, allow_ipv4: bool) -> None: ...
