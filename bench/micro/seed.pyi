"""The seed of the name hash, fixed: who counts instructions must find every name in the same bucket each time."""

def fix_name_hash(seed: int) -> None:
    """Only before any name is hashed, so before other modules of fastdns are imported; for processes that serve nobody."""
