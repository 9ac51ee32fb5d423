"""The directive: zones, files, providers and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.autopath import Settings, parse, read_search, setup
from fastdns.plugins.cancel import setup as other
from fastdns.plugins.erratic import setup as erratic
from fastdns.setup import Controller

RESOLV_CONF = "nameserver 1.2.3.4\ndomain foo.com\nsearch Bar.com baz.com\noptions ndots:5\n"


@pytest.fixture
def resolv_conf(tmp_path: Path) -> Path:
    path = tmp_path / "resolv.conf"
    path.write_text(RESOLV_CONF)
    return path


def test_a_file_gives_its_search_list_and_the_bare_name(resolv_conf: Path) -> None:
    controller = Controller.of(f"autopath {resolv_conf}", ["Example.net"])
    assert parse(controller) == Settings(["example.net."], ["bar.com.", "baz.com.", "."])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("@kubernetes", Settings(["."], None, "kubernetes")),
        ("example.org @kubernetes", Settings(["example.org."], None, "kubernetes")),
        ("10.0.0.0/8 @erratic", Settings(["10.in-addr.arpa."], None, "erratic")),
        ("@kubernetes {\n namespace_from question\n}", Settings(["."], None, "kubernetes", True)),
        ("@kubernetes {\n namespace_from question\n namespace_from client\n}", Settings(["."], None, "kubernetes")),
    ],
)
def test_a_plugin_may_know_the_path(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(f"autopath {text}")) == wanted


def test_the_last_line_counts(resolv_conf: Path) -> None:
    assert parse(Controller.of(f"autopath {resolv_conf}\nautopath a.test @kubernetes")) == Settings(["a.test."], None, "kubernetes")
    text = f"autopath @kubernetes {{\n namespace_from question\n}}\nautopath {resolv_conf}"
    assert parse(Controller.of(text)) == Settings(["."], ["bar.com.", "baz.com.", "."])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("search a.test b.test\nsearch c.test\n", ["c.test."]),
        ("search a.test\ndomain d.test more\n", ["d.test."]),
        ("# search a.test\nnameserver 192.0.2.1\n", []),
        ("domain\n", []),
    ],
)
def test_search_lists(tmp_path: Path, text: str, wanted: list[str]) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(text)
    assert read_search(str(path)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "no resolv-conf specified"),
        ("absent.conf", 'failed to parse "absent.conf": open absent.conf: no such file or directory'),
        ('""', 'failed to parse "": open : no such file or directory'),
        ("@kubernetes {\n upstream\n}", "Testfile:2 - Error during parsing: unknown property 'upstream'"),
        ("@kubernetes {\n namespace_from\n}", "Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'namespace_from'"),
        ("@kubernetes {\n namespace_from pod\n}", "Testfile:2 - Error during parsing: namespace_from must be client or question: pod"),
        (
            "/dev/null {\n namespace_from client\n}",
            "Testfile:2 - Error during parsing: namespace_from needs a plugin that knows namespaces, such as @kubernetes",
        ),
    ],
)
def test_bad(text: str, wanted: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(f"autopath {text}"))
    assert str(caught.value) == wanted


def test_the_provider_must_know_search_paths_if_it_is_there() -> None:
    controller = Controller.of("autopath @cancel")
    setup(controller)
    controller.hooks.startup[0]()
    other(Controller("cancel", [], "Testfile", controller.config, controller.hooks))
    with pytest.raises(CorefileError, match=r"^plugin/autopath: cancel does not implement the AutoPather interface$"):
        controller.hooks.startup[0]()


def test_the_provider_must_find_namespaces_if_they_are_asked_of_it() -> None:
    controller = Controller.of("autopath @erratic {\n namespace_from question\n}")
    setup(controller)
    erratic(Controller("erratic", [], "Testfile", controller.config, controller.hooks))
    with pytest.raises(CorefileError, match=r"^plugin/autopath: erratic finds no namespace in a question$"):
        controller.hooks.startup[0]()
