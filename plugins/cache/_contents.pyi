"""What a cache holds, and what is removed from it."""

class SharedContents:
    """Contents of a cache with these capacities (success, denial), shared by handlers. MemoryError when there is none."""

    def __init__(self, success: int, denial: int) -> None: ...
    def change(self, name: bytes, below: bool) -> None:
        """The records of a name, in lower-case wire form, have changed, and with ``below`` those of all names below it. Any thread."""
