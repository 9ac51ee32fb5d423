"""The command around a real server, in a network namespace of its own, with the kernel's own interface and packet filter."""

from __future__ import annotations

import ipaddress
import json
import re
import urllib.request

import pytest

from fastdns.node.rules import NftRules
from tests.node.nodes import LOCAL, TEMPLATE, UPSTREAM, Node, expected
from tests.programs import need, program
from tests.waiting import LIMIT, REPLY, until


def test_whole_life(node: Node) -> None:
    """Serves on both addresses, puts back what others remove, follows the ConfigMap, and leaves nothing behind."""
    space = node.space
    node.start_cluster()
    process = node.run("-syncinterval", "1", "-reloadwithsignal")
    for address in LOCAL:
        until(lambda address=address: space.ask("web.cluster.local", address) == ["192.0.2.1"], f"an answer of {address}")
        assert space.ask("elsewhere.example", address) == ["192.0.2.200"]
    until(lambda: space.rules() == expected(LOCAL), "all rules")
    assert space.do(lambda: urllib.request.urlopen("http://169.254.20.10:8080/health", timeout=REPLY).read()) == b"OK"
    # The packets do go through the rules.
    space.run("iptables", "-w", "-t", "raw", "-Z")
    until(lambda: space.ask("web.cluster.local", LOCAL[0]), "an answer")
    counted = re.findall(r"-p udp .*-c (\d+)", space.run("iptables", "-w", "-t", "raw", "-v", "-S", "OUTPUT"))
    assert sum(map(int, counted)) >= 2

    # What somebody else removes comes back.
    space.run("iptables", "-w", "-t", "raw", "-F")
    space.run("iptables", "-w", "-D", "INPUT", "1")
    until(lambda: space.rules() == expected(LOCAL), "the rules again")
    space.run("ip", "link", "del", "nodelocaldns")
    until(lambda: space.ask("web.cluster.local", LOCAL[1]) == ["192.0.2.1"], "the interface again")

    # The ConfigMap kube-dns, first with nonsense.
    (node.kube_dns / "stubDomains").write_text("{")
    until(lambda: space.errors().get("configmap") == 1, "the count of a configuration that is none")
    (node.kube_dns / "stubDomains").write_text(json.dumps({"acme.local": [UPSTREAM]}))
    until(lambda: space.ask("www.acme.local", LOCAL[0]) == ["192.0.2.2"], "the stub domain")
    assert space.errors() == {"configmap": 1, "interface_add": 0, "interface_check": 0, "iptables": 0, "iptables_lock": 0}

    process.terminate()
    assert process.wait(LIMIT) == 0
    assert space.rules() == []
    assert "nodelocaldns" not in space.links()
    assert not node.pidfile.exists()


def test_broken_corefile_ends_it(node: Node) -> None:
    """Without rules ever: queries go to the cluster."""
    node.template.write_text(".:53 {\n    nonsense\n}\n")
    assert node.run().wait(LIMIT) == 1
    assert "nonsense" in node.log()
    assert "Added back nodelocaldns rule" not in node.log()
    assert "nodelocaldns" not in node.space.links()


def test_ipv6(node: Node) -> None:
    node.template.write_text(TEMPLATE.replace("169.254.20.10:8080", "[fd00::10]:8080"))
    process = node.run("-interfacename", "dns6", local="fd00::10")
    until(lambda: node.space.rules("ip6tables") == expected(["fd00::10"]), "the rules")
    until(lambda: node.space.ask("elsewhere.example", "fd00::10") == ["192.0.2.200"], "an answer")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert node.space.rules("ip6tables") == []
    assert "dns6" not in node.space.links()


@pytest.mark.parametrize(
    ("flags", "during", "after"),
    [
        (["-skipteardown"], (True, True), (True, True)),
        (["-setupiptables=false"], (True, False), (False, False)),
        (["-setupinterface=false"], (False, True), (False, False)),
    ],
)
def test_switches(node: Node, flags: list[str], during: tuple[bool, bool], after: tuple[bool, bool]) -> None:
    """Whether there is an interface, and whether there are rules."""
    space = node.space

    def state() -> tuple[bool, bool]:
        return "nodelocaldns" in space.links(), space.rules() == expected(LOCAL)

    if "-setupinterface=false" in flags:
        for address in LOCAL:
            space.run("ip", "addr", "add", address, "dev", "lo")
    process = node.run(*flags)
    until(lambda: space.ask("elsewhere.example", LOCAL[0]), "an answer")
    until(lambda: state() == during, "the set-up")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert state() == after


def test_errors_are_counted(node: Node) -> None:
    """Without the iptables command it serves all the same; a template that is gone changes nothing."""
    node.run("-syncinterval", "1", PATH="/nowhere")
    until(lambda: node.space.errors().get("iptables", 0) >= 24, "the count")
    until(lambda: node.space.ask("elsewhere.example", LOCAL[0]) == ["192.0.2.200"], "an answer")
    node.template.unlink()
    until(lambda: node.space.errors()["configmap"] == 1, "the count")
    until(lambda: node.space.ask("elsewhere.example", LOCAL[0]) == ["192.0.2.200"], "an answer")


def test_rules_come_without_a_pidfile(node: Node) -> None:
    node.run("-pidfile", "")
    until(lambda: node.space.rules() == expected(LOCAL), "the rules")


@pytest.mark.parametrize("local", [LOCAL, ["fd00::10", "fd00::11"]], ids=["ipv4", "ipv6"])
def test_no_interface_but_the_loopback(node: Node, local: list[str]) -> None:
    """`lo` gets the addresses, keeps its own, and stays."""
    if ":" in local[0]:
        node.template.write_text(TEMPLATE.replace("169.254.20.10:8080", "[fd00::10]:8080"))
    process = node.run("-interfacename", "lo", "-syncinterval", "1", local=",".join(local))
    for address in local:
        until(lambda address=address: node.space.ask("some.example", address) == ["192.0.2.200"], f"an answer of {address}")
    assert node.space.links() == ["lo"]
    node.space.run("ip", "addr", "del", local[0], "dev", "lo")
    until(lambda: local[0] in addresses_of(node), "the address again")
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert {"127.0.0.1", "::1", UPSTREAM} <= set(addresses_of(node))
    assert not set(local) & set(addresses_of(node))


def addresses_of(node: Node) -> list[str]:
    return [entry["local"] for link in json.loads(node.space.run("ip", "-j", "addr", "show", "dev", "lo")) for entry in link["addr_info"]]


@pytest.mark.parametrize("local", [LOCAL, ["fd00::10", "fd00::11"]], ids=["ipv4", "ipv6"])
def test_nft_without_iptables(node: Node, local: list[str]) -> None:
    """A node on which no iptables command works: connection tracking passes the queries over by a table of nftables, which is put back and removed."""
    need("nft")
    space, family = node.space, "ip6" if ":" in local[0] else "ip"
    if family == "ip6":
        node.template.write_text(TEMPLATE.replace("169.254.20.10:8080", "[fd00::10]:8080"))
    programs = node.folder / "programs"
    programs.mkdir()
    for name in ("iptables", "ip6tables"):
        (programs / name).write_text("#!/bin/sh\necho 'missing kernel module?' >&2\nexit 3\n")
        (programs / name).chmod(0o755)
    (programs / "nft").symlink_to(program("nft"))
    process = node.run("-syncinterval", "1", local=",".join(local), PATH=str(programs))

    def count() -> int:
        return space.run("nft", "-nn", "list", "table", family, "nodelocaldns", check=False).count(" notrack comment ")

    # For each address and protocol one on the way in and two on the way out; and for each address the kubelet's probes in both directions.
    until(lambda: count() == len(local) * (2 * 3 + 2), "the table")
    until(lambda: space.ask("some.example", local[0]) == ["192.0.2.200"], "an answer")
    # The packets do go through the rules.
    table = space.run("nft", "-nn", "list", "table", family, "nodelocaldns")
    space.run("nft", "add", "table", family, "seen", "{ chain c { type filter hook input priority 0; ct state untracked udp dport 53 counter; }; }")
    until(lambda: space.ask("some.example", local[0]) == ["192.0.2.200"], "an answer")
    seen = re.search(r"counter packets (\d+)", space.run("nft", "list", "table", family, "seen"))
    assert seen
    assert int(seen[1]) >= 1
    space.run("nft", "flush", "table", family, "nodelocaldns")
    until(lambda: space.run("nft", "-nn", "list", "table", family, "nodelocaldns") == table, "the rules again")
    rules = NftRules([ipaddress.ip_address(address) for address in local], "53", "8080")
    assert space.do(rules.ensure, rules.rules[0]), "nothing is missing"
    process.terminate()
    assert process.wait(LIMIT) == 0
    assert count() == 0
    assert space.errors() == {}
