"""The pages of the site, for mkdocs (a hook of mkdocs.yml): those of the tree, at their own paths, so that a link holds in both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from markdown import Extension, Markdown
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def sections() -> dict[str, list[str]]:
    """Title -> pages. The first one is the beginning, and stands alone."""
    return {
        "": ["README.md"],
        "Operation": [*found("docs"), *found("deploy")],
        "Plugins": sorted(found("plugins"), key=lambda path: path.split("/")[1]),
        "Development": ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", *found("bench")],
    }


def found(folder: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.md"))


def linked(pages: list[str]) -> set[str]:
    """Files of the tree that pages link to and that are none themselves."""
    targets: set[Path] = set()
    for page in pages:
        here = ROOT / page
        targets |= {(here.parent / target).resolve() for target in LINK.findall(here.read_text()) if "://" not in target}
    return {target.relative_to(ROOT).as_posix() for target in targets if target.is_file() and target.is_relative_to(ROOT)} - set(pages)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [{title: pages} if title else pages[0] for title, pages in sections().items()]
    config.markdown_extensions.insert(0, Indentation())  # the others add to the parser
    config.mdx_configs["toc"] = {"slugify": anchor}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """In place of the files of docs/, whose paths begin there; the theme's stay."""
    pages = [page for its in sections().values() for page in its]
    kept = [file for file in files if file.src_dir != config.docs_dir]
    ours = [*pages, *sorted(linked(pages)), *config.extra_css]
    return Files([*kept, *(File.generated(config, str(path), abs_src_path=str(ROOT / str(path))) for path in ours)])


class Indentation(Extension):
    """What is in a list begins two spaces further, as on GitHub, and not four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.tab_length = 2
        md.build_parser()  # it keeps the length that it was built with


def anchor(heading: str, separator: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)
