"""root is where relative paths of its block begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.root import setup
from fastdns.setup import Controller


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("root /", "/"),
        ("root /nowhere/at/all", "/nowhere/at/all"),
        ("root /nowhere more /", "/"),  # as CoreDNS reads it
        ("root /nowhere\nroot /", "/"),
        ("root .", "."),
    ],
)
def test_arguments(text: str, root: str) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert controller.config.root == root


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(CorefileError, match="Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'root'"):
        setup(Controller.of("root"))
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "below"
    with pytest.raises(CorefileError, match=f"unable to access root path '{path}': stat {path}: not a directory"):
        setup(Controller.of(f"root {path}"))


def test_files_below_it(serve) -> None:
    def prepare(folder: Path) -> None:
        (folder / "below").mkdir()
        (folder / "below" / "names").write_text("192.0.2.1 a.test\n")
        (folder / "names").write_text("192.0.2.2 b.test\n")

    block = "    bind 127.0.0.1\n    hosts names\n"
    server = serve("a.test:{port} {\n    root {dir}/below\n" + block + "}\nb.test:{port} {\n" + block + "}\n", prepare=prepare)
    assert server.answers("a.test.") == ["192.0.2.1"]
    assert server.answers("b.test.") == ["192.0.2.2"]


def test_a_folder_that_is_not_there_is_told(serve) -> None:
    server = serve(".:{port} {\n    bind 127.0.0.1\n    root /nowhere\n    whoami\n}\n")
    server.wait_log(r"^\[WARNING\] plugin/root: Root path does not exist: /nowhere$")
    assert server.query("example.org.").additional
