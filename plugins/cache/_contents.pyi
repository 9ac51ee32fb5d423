"""What a cache holds, and what is removed from it."""

class SharedContents:
    """Contents of a cache with these capacities (success, denial), shared by handlers. MemoryError when there is none."""

    def __init__(self, success: int, denial: int) -> None: ...
