"""Maps of many names to small numbers, for plugins; the native side is in ``index/name_map.pxd``."""

from collections.abc import Iterable
from typing import Final, TypeAlias

#: Scopes of an entry: its name, all names below it, and both.
EXACT: Final = 1
BELOW: Final = 2
BOTH: Final = 3

#: A name (presentation form, or wire form as bytes) with its value, 1 by default, and its scopes, `BOTH` by default.
Entry: TypeAlias = str | bytes | tuple[str | bytes, int] | tuple[str | bytes, int, int]

class NameMatch:
    """What a map says of a name."""

    #: 1 to 255.
    value: int
    #: The entry's name, in lower case with its final dot.
    name: str
    #: The entry is that of the name itself, and not of one above it.
    exact: bool
    #: Of the entry: `EXACT`, `BELOW` or `BOTH`.
    scopes: int
    #: The entry's name, if it and every name below it have this value; else None. For ``remember(suffix=...)``.
    suffix: str | None

class NameDraft:
    """A version of a map that is not yet published; `NameMap.draft` makes one. Used by one thread at a time."""

    def add(self, name: str | bytes, value: int = 1, scopes: int = BOTH) -> bool:
        """Add an entry: a name in presentation form, or in wire form (bytes), with a value from 0 to 255.

        The first value that a name gets for a scope stays. False: nothing was added. Raises ValueError for what is no name, no value or no scope, and
        when there would be more names than the map's limit or more than 1 GiB of them; MemoryError.
        """

    def seal(self) -> None:
        """What has been added takes precedence over what comes: names below its entries for names below are left out from now on."""

    def __len__(self) -> int: ...

class NameMap:
    """Names with values from 0 to 255, each for the name exactly, for all names below it, or both. The closest entry holds.

    0 stands for an exception: names with that value count as not in the map. As `Plugin.zones` it has the native chain pass by all names outside of it,
    whatever their number, without Python. A million names take about 36 MB. Its methods may be called from any thread.
    """

    #: The most names; at most 16,777,216.
    limit: int

    def __init__(self, entries: Iterable[Entry] = (), *, limit: int = 4_194_304) -> None:
        """Raises as `replace`, and ValueError for a limit that is too large."""

    def replace(self, entries: Iterable[Entry]) -> None:
        """Replace all names. Entries are read one at a time; queries see the former names until all have been read, and keep them if that raises.

        Raises ValueError and MemoryError as `NameDraft.add`, and what the iterable raises. Waits until no query uses the former names.
        """

    def draft(self) -> NameDraft:
        """An empty version, to be filled and given to `publish`."""

    def publish(self, draft: NameDraft) -> None:
        """Replace all names by those of a draft, which is used up. Waits until no query uses the former ones. Raises MemoryError, and ValueError for a
        draft that is used up."""

    def match(self, name: str) -> NameMatch | None:
        """What holds for a name; None: nothing does, or an entry with the value 0. Raises ValueError for what is no name."""

    def __len__(self) -> int: ...
    @property
    def octets(self) -> int:
        """Memory of the version that serves."""
