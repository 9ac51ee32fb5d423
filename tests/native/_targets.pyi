"""Fuzz targets over single native functions."""

def addresses() -> dict[str, int]:
    """Name of a target -> the address of its function, for `call` and for libFuzzer."""

def call(address: int, octets: bytes) -> str:
    """What a target says of octets: "" where nothing is wrong."""
