"""Query files as dnsperf reads them: a name and a type on each line, ``;`` before a comment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

from fastdns._wire import name_text, name_wire
from fastdns.bench.workload import Question, WorkloadError
from fastdns.protocol.parameters import type_number

__all__ = ["read_queries"]


def read_queries(path: str | Path) -> Iterator[Question]:
    """The questions of a file, ``-`` for standard input; names are absolute with or without the final dot. WorkloadError with file and line."""
    try:
        with nullcontext(sys.stdin) if str(path) == "-" else open(path, encoding="ascii", errors="surrogateescape") as file:
            yield from _questions(file, "<stdin>" if str(path) == "-" else str(path))
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from error


def _questions(file: TextIO, where: str) -> Iterator[Question]:
    for number, line in enumerate(file, 1):
        fields = line.partition(";")[0].split()
        if not fields:
            continue
        if len(fields) != 2:
            raise WorkloadError(f"{where}:{number}: a name and a type are expected, found {line.strip()!r}")
        try:
            yield Question(name_text(name_wire(fields[0])), type_number(fields[1]))
        except ValueError as error:
            raise WorkloadError(f"{where}:{number}: {error}") from None
