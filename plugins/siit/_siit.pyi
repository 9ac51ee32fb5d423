from fastdns.plugins.dns64._synthesis import SynthesisHandler

class SiitHandler(SynthesisHandler):
    """Makes A records where there are none, of the AAAA records in ``mapped`` (16 octets to 4) and of those below ``prefix`` (4 to 12 octets)."""

    def __init__(self, name: str, prefix: bytes, mapped: dict[bytes, bytes]) -> None: ...
