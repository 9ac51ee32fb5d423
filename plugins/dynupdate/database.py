"""The database of a dynamic zone: SQLite, one transaction for each UPDATE, on the disk before it is confirmed.

The zone counts its transactions. So a process that finds another count than its own knows that another one has changed the zone (SIGUSR2), and reads it
again. Each connection is used by one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fastdns.corefile.errors import quoted
from fastdns.plugins.dynupdate.content import ContentError, Limits, Row, record_size, validate
from fastdns.protocol.parameters import TYPE_SOA
from fastdns.system.files import sync_folder
from fastdns.zonefile.rdata import lower, valid

__all__ = ["Database", "Stored", "check"]

#: Of the file's header: whose it is, and the version of its tables.
APPLICATION: Final = 0x66447570
VERSION: Final = 1
#: Seconds that another process may hold the file's lock.
PATIENCE: Final = 5.0

TABLES: Final = """
CREATE TABLE zone (origin BLOB NOT NULL, generation INTEGER NOT NULL);
CREATE TABLE record (owner BLOB NOT NULL, type INTEGER NOT NULL, canonical BLOB NOT NULL, ttl INTEGER NOT NULL, rdata BLOB NOT NULL,
    PRIMARY KEY (owner, type, canonical)) WITHOUT ROWID;
"""
#: The keys that wrote records. Files of former versions have no such table, and these versions can read and change files that have one.
WRITERS: Final = """
CREATE TABLE IF NOT EXISTS writer (owner BLOB NOT NULL, type INTEGER NOT NULL, canonical BLOB NOT NULL, key BLOB NOT NULL,
    PRIMARY KEY (owner, type, canonical)) WITHOUT ROWID
"""
JOINED: Final = """
SELECT owner, record.type, ttl, rdata, key FROM record LEFT JOIN writer USING (owner, type, canonical)
"""


class Stored(NamedTuple):
    """A zone as it is in a database."""

    generation: int
    rows: list[Row]
    #: The keys that wrote the rows, in lower-case wire form; None: the seed's, or not known.
    writers: list[bytes | None]


def check(path: str, origin: bytes, limits: Limits) -> Stored:
    """Read a database without changing or making a file. Raises ContentError."""
    try:
        with contextlib.closing(_open(path, "ro")) as connection:
            return _read(connection, path, origin, limits, True)
    except sqlite3.Error as error:
        if not _unfinished(error):
            raise _failure("opening", path, error) from error
    # A process has ended in a transaction. The next server that opens the file undoes it; here that is done in a copy.
    try:
        with tempfile.TemporaryDirectory(prefix="dynupdate-") as folder:
            copy = os.path.join(folder, "copy")
            shutil.copyfile(path, copy)
            shutil.copyfile(f"{path}-journal", f"{copy}-journal")
            with contextlib.closing(_open(copy, "rw")) as connection:
                return _read(connection, path, origin, limits, True)
    except (OSError, sqlite3.Error) as error:
        raise _failure("opening", path, error) from error


class Database:
    """An open database. Methods raise ContentError."""

    def __init__(self, path: str, origin: bytes) -> None:
        """Open a file that exists."""
        self.path = path
        self._origin = origin
        try:
            self._identity = _identity(path)
            self._connection = _open(path, "rw")
        except (OSError, sqlite3.Error) as error:
            raise _failure("opening", path, error) from error

    @classmethod
    def create(cls, path: str, origin: bytes, rows: Iterable[Row]) -> Database:
        """Make the file, whole or not at all, and open it. One that another process has made meanwhile is opened as it is."""
        folder, name = os.path.split(path)
        try:
            descriptor, begun = tempfile.mkstemp(".new", f"{name}.", folder)  # mode 0600
            os.close(descriptor)
            try:
                _fill(begun, origin, rows)
                with contextlib.suppress(FileExistsError):
                    os.link(begun, path)
            finally:
                os.unlink(begun)
            sync_folder(folder)
        except (OSError, sqlite3.Error) as error:
            raise _failure("creating", path, error) from error
        return cls(path, origin)

    def reopen(self) -> None:
        """Make a new connection to the same file. Without it all further methods fail."""
        self._connection.close()
        try:
            self._check_identity()
            self._connection = _open(self.path, "rw")
        except (OSError, sqlite3.Error) as error:
            raise _failure("opening", self.path, error) from error

    def _check_identity(self) -> None:
        """Raises ContentError and OSError."""
        if _identity(self.path) != self._identity:
            raise ContentError(f"database {quoted(self.path)} was replaced by another file")

    def read(self, limits: Limits, *, whole: bool) -> Stored:
        """The zone; ``whole``: the file's structure is checked, too."""
        try:
            return _read(self._connection, self.path, self._origin, limits, whole)
        except sqlite3.Error as error:
            raise _failure("loading", self.path, error) from error

    def generation(self) -> int:
        """The number of transactions, by whatever process."""
        try:
            return _generation(self._connection)
        except sqlite3.Error as error:
            raise _failure("loading", self.path, error) from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Nobody else changes the zone until the context ends; what `write` has not written is not there then."""
        try:
            self._check_identity()
            self._connection.execute("BEGIN IMMEDIATE")
        except (OSError, sqlite3.Error) as error:
            raise _failure("locking", self.path, error) from error
        try:
            yield
        finally:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    def write(self, generation: int, deleted: list[Row], added: list[Row], key: bytes) -> None:
        """Write a change by a key, which is on the disk afterwards, and end the transaction."""
        connection = self._connection
        try:
            for owner, kind, _, rdata in deleted:
                done = connection.execute("DELETE FROM record WHERE owner = ? AND type = ? AND canonical = ?", (owner, kind, lower(kind, rdata)))
                if done.rowcount != 1:
                    raise ContentError(f"database {quoted(self.path)} has not the records that are served")
            connection.executemany("INSERT INTO record (owner, type, canonical, ttl, rdata) VALUES (?, ?, ?, ?, ?)", map(_stored, added))
            connection.execute(WRITERS)
            connection.executemany("DELETE FROM writer WHERE owner = ? AND type = ? AND canonical = ?", map(_identified, deleted))
            written = ((*_identified(row), key) for row in added if row[1] != TYPE_SOA)
            connection.executemany("INSERT OR REPLACE INTO writer (owner, type, canonical, key) VALUES (?, ?, ?, ?)", written)
            connection.execute("UPDATE zone SET generation = ?", (generation,))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _failure("committing to", self.path, error) from error

    def close(self) -> None:
        """Without effect the second time."""
        self._connection.close()


def _open(path: str, mode: str) -> sqlite3.Connection:
    uri = f"file:{urllib.parse.quote(os.path.abspath(path))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if mode == "rw":
            # The end of a transaction is synced, too: with DELETE, which is the default, a loss of power could undo the last one.
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA synchronous = FULL")
        return connection
    except BaseException:
        connection.close()
        raise


def _fill(path: str, origin: bytes, rows: Iterable[Row]) -> None:
    with contextlib.closing(_open(path, "rw")) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("BEGIN")
        for table in filter(str.strip, TABLES.split(";")):
            connection.execute(table)
        connection.execute("INSERT INTO zone (origin, generation) VALUES (?, 1)", (origin,))
        connection.executemany("INSERT INTO record (owner, type, canonical, ttl, rdata) VALUES (?, ?, ?, ?, ?)", map(_stored, rows))
        connection.execute("COMMIT")
    # The journal of the new file goes with its name.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}-journal")


def _stored(row: Row) -> tuple[bytes, int, bytes, int, bytes]:
    owner, kind, ttl, rdata = row
    return owner, kind, lower(kind, rdata), ttl, rdata


def _identified(row: Row) -> tuple[bytes, int, bytes]:
    owner, kind, _, rdata = row
    return owner, kind, lower(kind, rdata)


def _generation(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT generation FROM zone").fetchall()
    if len(found) != 1 or not isinstance(found[0][0], int):
        raise ContentError("unrecognized database format")
    return int(found[0][0])


def _read(connection: sqlite3.Connection, path: str, origin: bytes, limits: Limits, whole: bool) -> Stored:
    try:
        began = not connection.in_transaction
        if began:
            connection.execute("BEGIN")
        try:
            return _read_rows(connection, origin, limits, whole)
        finally:
            if began:
                connection.execute("ROLLBACK")
    except ContentError as error:
        raise ContentError(f"loading database {quoted(path)}: {error}") from error


def _read_rows(connection: sqlite3.Connection, origin: bytes, limits: Limits, whole: bool) -> Stored:
    marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
    if marks != [APPLICATION, VERSION]:
        raise ContentError("unrecognized database format")
    if whole:
        damage = [str(text) for (text,) in connection.execute("PRAGMA quick_check(1)")]
        if damage != ["ok"]:
            raise ContentError(f"the file is damaged: {' '.join(damage)}")
    generation = _generation(connection)
    if connection.execute("SELECT origin FROM zone").fetchone()[0] != origin:
        raise ContentError("database belongs to a different zone")
    rows: list[Row] = []
    writers: list[bytes | None] = []
    known: dict[bytes, bytes] = {}
    octets = 0
    query = JOINED if _has_writers(connection) else "SELECT owner, type, ttl, rdata, NULL FROM record"
    for owner, kind, ttl, rdata, writer in connection.execute(query):
        if not _is_row(owner, kind, ttl, rdata) or not (writer is None or isinstance(writer, bytes)):
            raise ContentError("the file is damaged: a record is none")
        octets += record_size(owner, rdata)
        if len(rows) == limits.records:
            raise ContentError(f"stored zone exceeds max_records ({limits.records})")
        if octets > limits.octets:
            raise ContentError(f"invalid stored zone size (max_bytes {limits.octets})")
        rows.append((owner, kind, ttl, rdata))
        # One object for each key.
        writers.append(known.setdefault(writer, writer) if writer is not None else None)
    validate(rows, origin)
    return Stored(generation, rows, writers)


def _has_writers(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'writer'").fetchall())


def _is_row(owner: object, kind: object, ttl: object, rdata: object) -> bool:
    if not isinstance(owner, bytes) or not isinstance(rdata, bytes) or not isinstance(kind, int) or not isinstance(ttl, int):
        return False
    return 0 < kind < 65536 and 0 <= ttl < 1 << 32 and _is_name(owner) and valid(kind, rdata)


def _is_name(wire: bytes) -> bool:
    at = 0
    while at < len(wire) and 0 < wire[at] < 64:
        at += 1 + wire[at]
    return at == len(wire) - 1 and wire[at] == 0 and len(wire) <= 255


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _unfinished(error: sqlite3.Error) -> bool:
    """Whether a file that is opened to be read has a transaction that is to be undone first."""
    return getattr(error, "sqlite_errorname", "") in ("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY")


def _failure(what: str, path: str, error: Exception) -> ContentError:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ContentError(f"{what} database {quoted(path)}: {text}")
