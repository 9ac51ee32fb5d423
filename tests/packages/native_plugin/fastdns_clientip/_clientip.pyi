"""The native handler of clientip."""

from collections.abc import Sequence

class ClientIP:
    """ClientIP(NAME, ZONES): zones in presentation form."""

    def __init__(self, name: str, zones: Sequence[str]) -> None: ...
