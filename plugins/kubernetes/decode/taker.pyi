"""A sink in Python, for kinds that no decoder here knows."""

from msgspec import Raw

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.refusals import Refusals

class Taker(Sink):
    """Subclasses define what they need. All calls are on the thread of the loop; what they raise is logged, and costs at most one object."""

    #: Objects that `take` has refused.
    refusals: Refusals

    def begin(self) -> None:
        """A full list begins: what is not taken before `commit` is gone."""

    def take(self, octets: bytes | Raw, removed: bool) -> str | None:
        """An object in JSON was added or changed, or removed. Returns its resource version.

        An object for which it raises an exception other than MemoryError is refused: `withdraw` is called if its name can be read.
        """

    def withdraw(self, namespace: str, name: str, version: str) -> None:
        """An object was refused: its former version counts no more."""

    def commit(self) -> None:
        """The list is complete."""

    def drop(self) -> None:
        """Nobody wants the kind any more."""

    def flush(self) -> None:
        """No more objects are at hand for the moment."""
