"""Memory that malloc keeps. With a C library other than glibc, nothing is changed."""

def give_back() -> None:
    """Give the system whole free pages between those that are in use, which malloc keeps; for what has freed many small blocks. Takes milliseconds."""

def give_back_large() -> None:
    """From now on have blocks of 1 MiB and more be given back when they are freed. Else malloc keeps those that come once a larger one was freed."""
