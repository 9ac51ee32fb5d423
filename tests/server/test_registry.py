"""Where plugins come from and where they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastdns.plugins
from fastdns.corefile import CorefileError
from fastdns.plugin import register
from fastdns.server.configuration import Configuration
from fastdns.server.source import Source
from fastdns.setup import Controller, registry


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_added", {})
    monkeypatch.setattr(registry, "_entry_points_read", False)


def nothing(controller: Controller) -> None:
    while controller.next():
        controller.remaining_args()


def configure(text: str) -> Configuration:
    return Configuration(Source(text.encode(), "Corefile"), "53")


ORDERS = [
    ([("x", "", "")], "a x forward z"),
    ([("x", "a", "")], "x a forward z"),
    ([("x", "", "a")], "a x forward z"),
    ([("x", "", ""), ("y", "", "")], "a x y forward z"),
    ([("x", "", "a"), ("y", "", "a")], "a x y forward z"),
    ([("x", "y", ""), ("y", "z", "")], "a forward x y z"),
]


@pytest.mark.parametrize(("additions", "expected"), ORDERS)
def test_places(additions: list[tuple[str, str, str]], expected: str) -> None:
    assert registry.anchored(["a", "forward", "z"], additions) == expected.split()


def test_place_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="plugin x: there is no directive nowhere to stand after"):
        registry.anchored(["a", "forward"], [("x", "", "nowhere")])


def test_register() -> None:
    register("mine", nothing, before="cache")
    order = registry.in_order()
    assert order.index("mine") == order.index("cache") - 1
    assert "mine" in registry.built()
    for name, message in (("mine", "has a directive of that name"), ("cache", "fastdns has"), ("plugin", "fastdns has")):
        with pytest.raises(ValueError, match=message):
            register(name, nothing)
    with pytest.raises(ValueError, match="both before and after"):
        register("other", nothing, before="cache", after="log")
    with pytest.raises(ValueError, match="no directive nowhere"):
        register("other", nothing, before="nowhere")
    assert not registry.known("other")


def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, points: str) -> None:
    (tmp_path / f"{name}.py").write_text(source)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fastdns.plugins]\n{points}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


SETUP = """
from fastdns.plugin import CorefileError
before = "cache"
def setup(controller):
    controller.next()
    controller.values["seen"] = controller.args(1, 1)[0]
    if controller.values["seen"] == "wrong":
        raise CorefileError("that is wrong")
"""


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "fastdns_one", SETUP, "one = fastdns_one\ntwo = fastdns_one:setup")
    assert configure(". {\n one 5\n}").values["seen"] == "5"
    order = registry.in_order()
    assert order[order.index("cache") - 2 : order.index("cache")] == ["one", "two"]
    assert {"one", "two"} <= set(registry.built())
    with pytest.raises(CorefileError, match=r"^plugin/two: that is wrong$"):
        configure(". {\n two wrong\n}")
    with pytest.raises(CorefileError, match=r"^plugin/one: Corefile:3 - Error during parsing: Wrong argument count"):
        configure(". {\n\n one\n}")


def test_entry_points_that_clash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "fastdns_clash", SETUP, "cache = fastdns_clash")
    with pytest.raises(CorefileError, match="plugin cache of fastdns_clash: fastdns has a directive of that name"):
        configure(". {\n elsewhere\n}")


def test_entry_points_that_do_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, monkeypatch, "fastdns_broken", "import nowhere_at_all", "broken = fastdns_broken")
    with pytest.raises(CorefileError, match="plugin/broken: fastdns_broken cannot be imported: ModuleNotFoundError"):
        configure(". {\n broken\n}")


FILE = """
after = "log"
seen = []
def setup(controller):
    while controller.next():
        block = controller.val(), controller.remaining_args(), []
        while controller.next_block():
            block[2].append(controller.val())
        controller.values.setdefault("calls", []).append(block)
"""


def test_plugin_files(tmp_path: Path) -> None:
    (tmp_path / "lists.py").write_text(FILE)
    (tmp_path / "other.py").write_text(FILE.replace('"log"', '"metadata"'))
    lines = [f"plugin {tmp_path}/lists.py a b {{", "c", "}", f"plugin {tmp_path}/other.py", f"plugin {tmp_path}/lists.py"]
    configuration = configure(". {\n" + "\n".join(lines) + "\n}")
    assert configuration.values["calls"] == [("other", [], []), ("lists", ["a", "b"], ["c"]), ("lists", [], [])]


BAD_FILES: list[tuple[str, Any, str]] = [
    ("plugin", None, r"plugin/plugin: Corefile:2 - Error during parsing: Wrong argument count"),
    ("plugin {FILE}", None, r"plugin/plugin: Corefile:2 - Error during parsing: open .*x\.py: no such file or directory"),
    ("plugin {FILE}", "def setup(:", r"plugin/plugin: .*x\.py: SyntaxError"),
    ("plugin {FILE}", "a = 1", r"plugin/plugin: .*x\.py: AttributeError"),
    ("plugin {FILE}", "before = 'nowhere'\ndef setup(c): pass", r"no directive nowhere"),
    ("plugin {FILE}", "def setup(c): raise ValueError('no good')", r"^plugin/x: no good$"),
    ("plugin {FILE}", "def setup(c): 1 / 0", r"^plugin/x: Corefile:2 - Error during parsing: ZeroDivisionError: division by zero \(x\.py:1\)$"),
    ("plugin {FILE}", "def setup(c): c.next(); raise c.err('bad')", r"^plugin/x: Corefile:2 - Error during parsing: bad$"),
]


@pytest.mark.parametrize(("line", "content", "message"), BAD_FILES)
def test_plugin_files_refused(line: str, content: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CorefileError, match=message):
        configure(f". {{\n {line.replace('{FILE}', str(path))}\n}}")


def test_every_directive_has_a_plugin() -> None:
    assert [name for name, folder in registry.in_tree().items() if not registry.folder_of(folder)] == []


def test_a_plugin_that_is_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After make run a source tree has the modules of the sample cluster alone."""
    folder = tmp_path / "lacking"
    folder.mkdir()
    (folder / "__init__.py").write_text("from fastdns.plugins.lacking import _lacking\n")
    (folder / "_lacking.pyx").touch()
    monkeypatch.setattr("fastdns.plugins.__path__", [*fastdns.plugins.__path__, str(tmp_path)])
    monkeypatch.setitem(registry.in_tree(), "lacking", "lacking")
    with pytest.raises(CorefileError, match="^Corefile:2 - Error during parsing: directive 'lacking' is not compiled: make build compiles every plugin"):
        configure(". {\n lacking\n}")
