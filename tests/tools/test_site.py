"""The site that make site builds: all pages of the tree, their links and search, and nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.test_docs import pages

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").is_file(), reason="the source tree is not here")

#: What loads another file, by its attribute.
LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
FENCE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1$", re.M | re.S)
#: Markdown that was taken for text: rows of tables, items of lists, fences, links.
LEFT = re.compile(r"^ *(?:<p>)?(?:\||[*-] |\d+\. ).*|~~~|```|\]\(", re.M)


def path_of(page: str) -> str:
    """Of a page of the tree, in the site."""
    return re.sub(r"README\.md$", "index.md", page).removesuffix(".md") + ".html"


PAGES = [page.relative_to(ROOT).as_posix() for page in pages()] if (ROOT / "mkdocs.yml").is_file() else []


def build(tree: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "-d", str(site)], cwd=tree, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """Its ids, what it links to and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values["id"]} if "id" in values else set()
        if tag in LOADS and LOADS[tag] in values:
            self.loads.append(values[LOADS[tag]])
        elif "href" in values:
            self.links.append(values["href"])


@pytest.mark.parametrize("page", PAGES)
def test_a_page(site: Path, page: str) -> None:
    text = (site / path_of(page)).read_text()
    source = (ROOT / page).read_text()
    title = re.search(r"^# (.*)$", source, re.M)
    assert title is not None
    assert re.sub(r"[`*]", "", title[1]) in re.sub(r"<[^>]*>", "", text)
    assert text.count("<pre><code") >= len(FENCE.findall(source))
    assert LEFT.findall(re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", text, flags=re.S)) == []


def test_every_directive_and_every_page_is_there(site: Path) -> None:
    directives = dict(re.findall(r"^(\w+):(\w+)$", (ROOT / "plugin.cfg").read_text(), re.M))
    assert len(directives) > 50
    ours = {folder for folder in directives.values() if (ROOT / "plugins" / folder).is_dir()}
    assert {page.parent.name for page in (site / "plugins").glob("*/index.html")} == ours
    built = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert built == {path_of(page) for page in PAGES} | {"404.html", "search.html"}


def test_the_navigation_has_every_page(site: Path) -> None:
    home = Page(site / "index.html")
    assert {path_of(page) for page in PAGES} - {"index.html"} <= {link.partition("#")[0] for link in home.links}


def test_search(site: Path) -> None:
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert {entry["location"].partition("#")[0] for entry in found} == {path_of(page) for page in PAGES}
    syntax = [entry["text"] for entry in found if entry["location"] == "plugins/cache/index.html#syntax"]
    assert "serve_stale" in "".join(syntax)


def test_links(site: Path) -> None:
    """Each leads to a file of the site, and to a place that is in it."""
    parsed = {path: Page(path) for path in site.rglob("*.html")}
    assert sum(len(page.links) for page in parsed.values()) > 1000
    for path, page in parsed.items():
        if path.name == "404.html":  # of the server's root
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), f"{path.relative_to(site)}: {link}"
            assert not parts.fragment or target not in parsed or unquote(parts.fragment) in parsed[target].ids, f"{path.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        for load in Page(path).loads:
            assert not urlsplit(load).netloc, f"{path.relative_to(site)}: {load}"
    for path in site.rglob("*.css"):
        for load in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text()):
            assert load.startswith("data:") or not urlsplit(load).netloc, f"{path.relative_to(site)}: {load}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As many pages as mkdocs.yml names."""
    made = tmp_path / "tree"
    for name in ("tools", "docs", "plugins", "deploy", "bench"):
        (made / name).mkdir(parents=True)
    shutil.copy(ROOT / "mkdocs.yml", made)
    shutil.copy(ROOT / "tools/site_pages.py", made / "tools")
    shutil.copy(ROOT / "docs/site.css", made / "docs")
    for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"):
        (made / f"{name}.md").write_text(f"# {name}\n")
    return made


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("[there](../README.md#readme)", ""),
        ("[there](../README.md#nowhere)", "does not contain an anchor"),
        ("[there](../plugins/away/README.md)", "is not found among documentation files"),
        ("[there](/README.md)", "absolute"),
    ],
)
def test_a_link_that_leads_nowhere(tree: Path, text: str, warning: str) -> None:
    (tree / "docs/page.md").write_text(f"# page\n\n{text}\n")
    done = build(tree, tree / "site")
    assert (done.returncode != 0) == bool(warning), done.stderr
    assert re.search(rf"docs/page\.md.*{warning}", done.stderr) or not warning
