"""The packet filter's rules: DNS to and from the local addresses goes without connection tracking, and is let through.

Rules and comments are those of node-cache (kubernetes/dns `cmd/node-cache/app/cache_app.go`), so that each of the two recognises the rules of the
other. They are added by the `iptables` commands, which the rest of a node (kube-proxy, CNI plugins) uses too.
"""

from __future__ import annotations

import ipaddress
import shutil
import subprocess

__all__ = ["Rule", "Rules", "RulesError", "wanted"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Table, chain, arguments.
Rule = tuple[str, str, list[str]]

SKIP = ["-j", "NOTRACK", "-m", "comment", "--comment", "NodeLocal DNS Cache: skip conntrack"]
ALLOW = ["-j", "ACCEPT", "-m", "comment", "--comment", "NodeLocal DNS Cache: allow DNS traffic"]
#: Chains that a kubelet makes in the variant of iptables that its node uses.
HINTS = (":KUBE-IPTABLES-HINT", ":KUBE-KUBELET-CANARY")
#: Seconds to wait for the lock that all iptables commands share, and for one command.
LOCK_WAIT = 5
COMMAND_LIMIT = 30
#: More copies of one rule than this are not deleted.
COPIES_MAX = 64


class RulesError(Exception):
    """A command failed. ``locked``: another command held the lock until the timeout."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.locked = "holding the xtables lock" in text


def towards(protocol: str, address: Address, port: str) -> list[str]:
    return ["-p", protocol, "-d", str(address), "--dport", port]


def back(protocol: str, address: Address, port: str) -> list[str]:
    return ["-p", protocol, "-s", str(address), "--sport", port]


def wanted(addresses: list[Address], port: str, health_port: str) -> list[Rule]:
    """The rules for some addresses."""
    rules: list[Rule] = []
    for address in addresses:
        for protocol in ("tcp", "udp"):
            rules += [
                ("raw", "PREROUTING", towards(protocol, address, port) + SKIP),
                # The usual rules let tracked connections through; these are none.
                ("filter", "INPUT", towards(protocol, address, port) + ALLOW),
                ("raw", "OUTPUT", back(protocol, address, port) + SKIP),
                ("filter", "OUTPUT", back(protocol, address, port) + ALLOW),
                # Queries of the node itself and of pods in its network.
                ("raw", "OUTPUT", towards(protocol, address, port) + SKIP),
            ]
        # The kubelet's probes.
        rules += [("raw", "OUTPUT", towards("tcp", address, health_port) + SKIP), ("raw", "OUTPUT", back("tcp", address, health_port) + SKIP)]
    return rules


class Rules:
    """The rules for some addresses, and the command that makes them."""

    def __init__(self, addresses: list[Address], port: str, health_port: str) -> None:
        self.rules = wanted(addresses, port, health_port)
        self.command = _command("iptables" if addresses[0].version == 4 else "ip6tables")

    def ensure(self, rule: Rule) -> bool:
        """Insert a rule as the first one unless it exists. Returns whether it existed. Raises RulesError."""
        table, chain, arguments = rule
        if self._run("-t", table, "-C", chain, *arguments, missing=True):
            return True
        self._run("-t", table, "-I", chain, *arguments)
        return False

    def remove(self, rule: Rule) -> None:
        """Delete all copies of a rule. Raises RulesError."""
        table, chain, arguments = rule
        for _ in range(COPIES_MAX):
            if not self._run("-t", table, "-C", chain, *arguments, missing=True):
                return
            self._run("-t", table, "-D", chain, *arguments)

    def _run(self, *arguments: str, missing: bool = False) -> bool:
        """Run the command. False when the rule is missing and that is allowed."""
        command = [self.command, "-w", str(LOCK_WAIT), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RulesError(str(error)) from None
        if done.returncode == 0:
            return True
        if done.returncode == 1 and missing:
            return False
        raise RulesError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")


def _command(name: str) -> str:
    """The variant, nft or legacy, in which the kubelet's chains are; else the default one."""
    for variant in ("nft", "legacy"):
        save = shutil.which(f"{name}-{variant}-save")
        if save is None:
            continue
        try:
            listed = subprocess.run([save, "-t", "mangle"], capture_output=True, text=True, timeout=COMMAND_LIMIT, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if any(hint in listed.stdout for hint in HINTS):
            return f"{name}-{variant}"
    return name
