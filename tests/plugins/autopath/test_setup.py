"""The directive: zones, files, providers and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdns.corefile import Controller, CorefileError
from fastdns.plugins.autopath import parse, read_search, setup
from fastdns.plugins.cancel import setup as other

RESOLV_CONF = "nameserver 1.2.3.4\ndomain foo.com\nsearch Bar.com baz.com\noptions ndots:5\n"


@pytest.fixture
def resolv_conf(tmp_path: Path) -> Path:
    path = tmp_path / "resolv.conf"
    path.write_text(RESOLV_CONF)
    return path


def test_a_file_gives_its_search_list_and_the_bare_name(resolv_conf: Path) -> None:
    controller = Controller.of(f"autopath {resolv_conf}", ["Example.net"])
    assert parse(controller) == (["example.net."], ["bar.com.", "baz.com.", "."], "")


@pytest.mark.parametrize(
    ("text", "zones", "provider"),
    [
        ("@kubernetes", ["."], "kubernetes"),
        ("example.org @kubernetes", ["example.org."], "kubernetes"),
        ("10.0.0.0/8 @erratic", ["10.in-addr.arpa."], "erratic"),
    ],
)
def test_a_plugin_may_know_the_path(text: str, zones: list[str], provider: str) -> None:
    assert parse(Controller.of(f"autopath {text}")) == (zones, None, provider)


def test_the_last_line_counts(resolv_conf: Path) -> None:
    assert parse(Controller.of(f"autopath {resolv_conf}\nautopath a.test @kubernetes")) == (["a.test."], None, "kubernetes")
    assert parse(Controller.of(f"autopath @kubernetes\nautopath {resolv_conf}"))[1:] == (["bar.com.", "baz.com.", "."], "")


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
