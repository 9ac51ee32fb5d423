"""Questions of clients and how often each was asked, in a temporary file: memory does not grow with their number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fastdns._wire import accept

__all__ = ["Asked", "Questions"]

#: KiB of the file that SQLite keeps in memory.
CACHE: Final = 8192
#: No journal: nothing is read after an error.
TABLE: Final = f"""
PRAGMA journal_mode = OFF;
PRAGMA temp_store = FILE;
PRAGMA cache_size = -{CACHE};
CREATE TABLE asked (name TEXT NOT NULL, type INTEGER NOT NULL, client BLOB NOT NULL, question BLOB NOT NULL, times INTEGER NOT NULL,
    PRIMARY KEY (name, type, client, question)) WITHOUT ROWID;
BEGIN;
"""
ADD: Final = "INSERT INTO asked VALUES (?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1"
ADD_ONCE: Final = "INSERT INTO asked VALUES (?, ?, ?, ?, 1) ON CONFLICT DO NOTHING"


class Asked(NamedTuple):
    """A question of one client."""

    name: str
    qtype: int
    client: bytes
    #: With id 0.
    question: bytes
    times: int


class Questions:
    """A set of them, in the order of name, type and client."""

    def __init__(self) -> None:
        """Raises OSError where the folder for temporary files takes none."""
        self._database = sqlite3.connect("", isolation_level=None)
        try:
            self._database.executescript(TABLE)
        except sqlite3.Error as error:
            raise _failure(error) from error

    def add(self, questions: Iterable[tuple[bytes, bytes]], once: bool = False) -> None:
        """Questions and clients, each asked one time more, or ``once`` in all. Raises OSError."""
        rows = ((*_key(question), client, question) for question, client in questions)
        try:
            self._database.executemany(ADD_ONCE if once else ADD, rows)
        except sqlite3.Error as error:
            raise _failure(error) from error

    def __iter__(self) -> Iterator[Asked]:
        """Raises OSError."""
        try:
            yield from map(Asked._make, self._database.execute("SELECT * FROM asked ORDER BY name, type, client, question"))
        except sqlite3.Error as error:
            raise _failure(error) from error

    def counts(self) -> tuple[int, int, int]:
        """How many questions, how many clients, and how often they have asked. Raises OSError."""
        try:
            [found] = self._database.execute("SELECT count(DISTINCT question), count(DISTINCT client), coalesce(sum(times), 0) FROM asked")
        except sqlite3.Error as error:
            raise _failure(error) from error
        return tuple(found)

    def close(self) -> None:
        self._database.close()


def _key(question: bytes) -> tuple[str, int]:
    _, _, name, qtype, _ = accept(question)
    return name or "?", qtype


def _failure(error: sqlite3.Error) -> OSError:
    return OSError(f"the temporary file of questions: {error}")
