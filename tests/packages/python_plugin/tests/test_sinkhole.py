"""The plugin through fastdns.testing: no socket, no server."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastdns_sinkhole import Sinkhole, setup

from fastdns.plugin import CorefileError, Endpoint, Pod, Service
from fastdns.testing import Case, Executor, Passed, ask, check, configure


class Cluster:
    """Pods by address."""

    def __init__(self, pods: dict[str, Pod]) -> None:
        self.pods = {bytes(map(int, address.split("."))): pod for address, pod in pods.items()}

    def pod(self, address: str | bytes) -> Pod | None:
        return self.pods.get(address) if isinstance(address, bytes) else None

    def service(self, namespace: str, name: str) -> Service | None:
        return None

    def endpoints(self, namespace: str, name: str) -> list[Endpoint]:
        return []


@pytest.mark.parametrize(
    ("name", "qtype", "wanted"),
    [
        ("ads.example.", "A", ["ads.example. 60 IN A 192.0.2.1"]),
        ("a.ADS.example.", "A", ["a.ADS.example. 60 IN A 192.0.2.1"]),
        ("ads.example.", "AAAA", []),
    ],
)
def test_listed(name: str, qtype: str, wanted: list[str]) -> None:
    check(ask(Sinkhole(["Ads.example"], "192.0.2.1"), name, qtype), Case(name, qtype, answer=wanted))


def test_not_listed() -> None:
    with pytest.raises(Passed):
        ask(Sinkhole(["ads.example."]), "bads.example.")


def test_verdicts_are_cached() -> None:
    executor = Executor(Sinkhole(["ads.example."]))
    for name in ("ads.example.", "a.ads.example.", "b.c.ads.example."):
        check(executor.ask(name), Case(name, rcode="NXDOMAIN"))
    assert executor.served == 1


def test_excepted_pods() -> None:
    executor = Executor(Sinkhole(["ads.example."], excepted=["kube-system"]))
    cluster = Cluster({"192.0.2.7": Pod("kube-system", "agent", {}), "192.0.2.8": Pod("shop", "web", {})})
    with pytest.raises(Passed):
        executor.ask("ads.example.", client="192.0.2.7", cluster=cluster)
    for client in ("192.0.2.8", "192.0.2.9"):
        check(executor.ask("ads.example.", client=client, cluster=cluster), Case("ads.example.", rcode="NXDOMAIN"))


def test_setup(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("# a list\nads.example.\nX.example  # and this\n\n")
    plugin = configure(f". {{\n root {tmp_path}\n sinkhole names.txt {{\n  answer 2001:db8::1\n  except a b\n }}\n}}", "sinkhole")
    assert isinstance(plugin, Sinkhole)
    assert plugin.names == {"ads.example.", "x.example."}
    assert plugin.excepted == {"a", "b"}
    check(ask(plugin, "ads.example.", "AAAA"), Case("ads.example.", "AAAA", answer=["ads.example. 60 IN AAAA 2001:db8::1"]))


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("sinkhole", r"Corefile:2 - Error during parsing: Wrong argument count"),
        ("sinkhole nosuch.txt", r"plugin/sinkhole: open nosuch.txt: no such file or directory"),
        ("sinkhole /dev/null {\n  answer x\n }", r"plugin/sinkhole: 'x' does not appear to be an IPv4 or IPv6 address"),
        ("sinkhole /dev/null {\n  other\n }", r"Corefile:3 - Error during parsing: unknown property 'other'"),
        ("sinkhole /dev/null {\n  ttl 0\n }", r"plugin/sinkhole: ttl must be positive"),
    ],
)
def test_errors(lines: str, error: str) -> None:
    with pytest.raises(CorefileError, match=error):
        configure(f". {{\n {lines}\n}}", "sinkhole")


def test_the_entry_point_is_that_set_up() -> None:
    from importlib.metadata import entry_points

    (point,) = entry_points(group="fastdns.plugins", name="sinkhole")
    assert point.load() is setup
