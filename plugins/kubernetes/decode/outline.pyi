"""The name of an object that cannot be decoded, from its JSON: read without recursion, whatever its parts are and however deep."""

def outline(octets: bytes, levels: int) -> bytes:
    """The same JSON with a 0 for each array and object that is inside of so many others, and "" for strings with escapes or beyond ASCII."""

def identify(octets: bytes) -> tuple[str, str, str]:
    """Namespace, name and resource version of an object; all "" if it has no name that can be read."""

def identify_event(octets: bytes) -> tuple[str, tuple[str, str, str]]:
    """The type of an event of a watch, "" if it has none that can be read, and what `identify` says of its object."""
