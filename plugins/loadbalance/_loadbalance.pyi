from fastdns._mux import NativeHandler

class LoadbalanceHandler(NativeHandler):
    """Reorders the records of successful replies.

    ``weighted``: by the table given to `set_weights`, else at random, with addresses in ``networks`` (packed address, prefix
    length) first. ValueError for more than 64 networks.
    """

    def __init__(self, name: str, weighted: bool, networks: list[tuple[bytes, int]]) -> None: ...
    def set_weights(self, domains: dict[bytes, list[tuple[bytes, int]]]) -> None:
        """Put a table in place of the last one: packed addresses and weights (1 to 255) by owner name in wire form, letter case kept."""
