def read_name(text: bytes) -> bytes | None:
    """What the workers make of a name in presentation form: its wire form, or None when it is none."""
