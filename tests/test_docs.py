"""Documentation is tested: every `corefile` block of every page parses, names directives that exist, and would be served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastdns.corefile import parse
from fastdns.server.inspection import Inspection
from fastdns.server.source import find
from tests.certificates import write_certificates

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^([ \t]*)~~~+ ?corefile|^([ \t]*)```+ ?corefile", re.M)
BLOCK = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*corefile[^\n]*\n(.*?)^\1\2", re.M | re.S)
#: Errors about files that are not here: libunbound names none.
AWAY = re.compile(r"no such file or (?:directory|folder)|config profile \(\w+\) could not be found|failed to initialise libunbound: initialization failure")

pytestmark = pytest.mark.skipif(not (ROOT / "plugin.cfg").is_file(), reason="the source tree is not here")


def pages() -> list[Path]:
    folders = [ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in ("docs", "plugins", "deploy", "bench"))]
    return sorted(path for folder in folders for path in folder)


def blocks() -> list[tuple[str, str]]:
    found = []
    for path in pages():
        for block in BLOCK.finditer(path.read_text()):
            line = path.read_text()[: block.start()].count("\n") + 2
            found.append((f"{path.relative_to(ROOT)}:{line}", block[3]))
    return found


def directives() -> set[str]:
    return set(re.findall(r"^(\w+):\w+$", (ROOT / "plugin.cfg").read_text(), re.M))


@pytest.mark.parametrize(("place", "corefile"), blocks(), ids=lambda value: value if "\n" not in value else "")
def test_block_parses(place: str, corefile: str) -> None:
    known = directives()
    assert parse(corefile, place, known.__contains__), "no server block"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the certificates that pages name."""
    return write_certificates(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize(("place", "corefile"), blocks(), ids=lambda value: value if "\n" not in value else "")
def test_block_would_be_served(place: str, corefile: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `fastdns check` says: but for files that an example names and that are not here, its plugins take their options."""
    monkeypatch.chdir(folder)
    (folder / "Corefile").write_text(corefile)
    errors = [problem.message for problem in Inspection(find("Corefile", "53"), "53").problems if problem.severity == "error"]
    if any("is not in this build" in error for error in errors):
        pytest.skip("a build without QUIC: make quic")
    # A directive goes without the line of the file.
    away = {error.partition(":")[0] for error in errors if AWAY.search(error)}
    assert [error for error in errors if error.partition(":")[0] not in away] == []


def test_every_fence_was_found() -> None:
    """A block that the expression above does not see would go untested."""
    text = "".join(path.read_text() for path in pages())
    assert len(FENCE.findall(text)) == len(blocks())


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_hold(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", path.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (path.parent / target).exists(), target


def test_every_difference_that_the_corpus_sees_is_told() -> None:
    cases = re.findall(r"^(\S+)#\S+: ", (ROOT / "docs" / "differences.yaml").read_text(), re.M)
    assert cases
    page = (ROOT / "docs" / "differences.md").read_text()
    assert not [case for case in cases if f"`{case}`" not in page]
