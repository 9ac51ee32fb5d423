"""ARCHITECTURE.md's list of what threads share without locks is whole."""

from __future__ import annotations

import re
from pathlib import Path

from tests.model.source import ROOT

#: Calls that release, under the names that *kubernetes* gives them too.
RELEASING = re.compile(r"\b(?:atomic_(?:store|exchange|swap|take|add32|fence)\w*|spin_try|store_(?:pointer|word|count))\(")


def section() -> str:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return text[text.index("## Memory order") :].partition("\n## ")[0]


def test_every_file_that_publishes_is_listed() -> None:
    sources = [path for folder in ("fastdns", "plugins") for path in (ROOT / folder).rglob("*.p[yx]?") if path.suffix in (".pyx", ".pxd")]
    publishing = {str(path.relative_to(ROOT)) for path in sources if RELEASING.search(path.read_text())}
    # Counters of a debug build, and where the operations are defined.
    publishing -= {"fastdns/system/atomic.pxd", "fastdns/system/debug.pxd"}
    assert len(publishing) > 40
    assert publishing - set(re.findall(r"`((?:fastdns|plugins)/[^` ]+)`", section())) == set()


def test_the_listed_files_are_there() -> None:
    for name in re.findall(r"`((?:fastdns|plugins)/[^` ]+)`", section()):
        assert Path(ROOT, name).is_file(), name
