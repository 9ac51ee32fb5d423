"""A sink in Python, for kinds that no decoder here knows."""

from msgspec import Raw

from fastdns.plugins.kubernetes.decode.objects import Sink

class Taker(Sink):
    """Subclasses define what they need. All calls are on the thread of the loop; what they raise, other than `take`, is logged."""

    def begin(self) -> None:
        """A full list begins: what is not taken before `commit` is gone."""

    def take(self, octets: bytes | Raw, removed: bool) -> str | None:
        """An object in JSON was added or changed, or removed. Returns its resource version.

        Raises msgspec.DecodeError and UnicodeError for what is no object: the list or watch begins anew.
        """

    def commit(self) -> None:
        """The list is complete."""

    def drop(self) -> None:
        """Nobody wants the kind any more."""

    def flush(self) -> None:
        """No more objects are at hand for the moment."""
