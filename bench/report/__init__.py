"""Reports of what was measured; as a command, ``fastdns-bench report FILE...`` makes a page of the JSON of one run, or of several over time."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fastdns.bench.report.page import page
from fastdns.bench.report.table import table

VERSION = 1


class DocumentError(ValueError):
    """A file that is no report of ours; the text names it."""


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("report", help="tables and a page of runs that were kept as JSON, one or several over time")
    parser.add_argument("file", nargs="+", type=Path, help="what --json wrote")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures")
    parser.set_defaults(run=report)


def report(options: argparse.Namespace) -> int:
    try:
        documents = sorted((read(path) for path in options.file), key=lambda document: document["made"])
    except DocumentError as error:
        print(f"fastdns-bench: {error}", file=sys.stderr)
        return 2
    for document in documents:
        print(table(document))
    if options.html:
        options.html.write_text(page(documents))
    return 0


def read(path: Path) -> dict[str, Any]:
    """A run's document. Raises DocumentError."""
    try:
        document: dict[str, Any] = json.loads(path.read_text())
        if document["version"] != VERSION:
            raise DocumentError(f"{path} has version {document['version']}, not {VERSION}")
        if not document["runs"] or not document["made"]:
            raise DocumentError(f"{path} has no runs")
        if "work" not in document["runs"][0]:
            raise DocumentError(f"{path} is of a load without a server: `fastdns-bench merge` shows it")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DocumentError(f"{path} cannot be read: {error}") from None
    except (KeyError, TypeError):
        raise DocumentError(f"{path} is no report of fastdns-bench") from None
    return document
