"""Counters of live native memory and objects, in a debug build (``FASTDNS_DEBUG=1``); every other build counts nothing."""

#: Whether this is a debug build.
enabled: bool

def counters() -> dict[str, tuple[int, int]]:
    """How many were made since the process began and how many live, by name; empty in other builds.

    Names are ``MODULE.STRUCT`` for blocks of memory for a struct, ``MODULE.FUNCTION()`` for other memory that the function allocates, ``MODULE.NAME``
    for what counts by `debug_made`. Blocks of libraries and of Python are not among them.
    """

def objects() -> dict[str, int]:
    """Living objects of extension types that the garbage collector knows, by ``MODULE.CLASS``, after a collection; empty in other builds."""

def report() -> None:
    """Write both to stderr; nothing in other builds."""
