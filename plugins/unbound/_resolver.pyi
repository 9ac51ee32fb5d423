"""A context of libunbound and its thread."""

class Context:
    """Answers questions once it is started; set up by one thread before that."""

    def __init__(self) -> None:
        """OSError, MemoryError: there are no descriptors or no memory."""

    def set_option(self, name: str, value: str) -> None:
        """An option of unbound.conf(5), such as ``root-hints``. ValueError: libunbound's words; it has no such option, or not that value."""

    def read_config(self, path: str) -> None:
        """A file in the form of unbound.conf(5). ValueError; what is wrong with it libunbound writes to standard error."""

    def complete(self) -> None:
        """Have libunbound use what is set: it reads the files that options name. ValueError; why, it writes to standard error."""

    def start(self) -> None:
        """Start the thread, unless it runs."""

    def stop(self) -> None:
        """End the thread, and libunbound's context with its cache. No query waits for it any more."""

    def pending(self) -> int:
        """Questions that libunbound has, those that nobody waits for included."""
