"""The packet filter's rules: DNS to and from the local addresses goes without connection tracking, and is let through.

Rules and comments are those of node-cache (kubernetes/dns `cmd/node-cache/app/cache_app.go`), so that each of the two recognises the rules of the
other. They are added by the `iptables` commands, which the rest of a node (kube-proxy, CNI plugins) uses too; where these do not work, by `nft`.
"""

from __future__ import annotations

import ipaddress
import shutil
import subprocess

__all__ = ["NftRules", "Rule", "Rules", "RulesError", "find_rules", "wanted"]

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
#: The table of a node without iptables. Other tables have no part in it.
TABLE = "nodelocaldns"
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
        done = _run([self.command, "-w", str(LOCK_WAIT), *arguments], "", (0, 1) if missing else (0,))
        return done.returncode == 0


class NftRules:
    """The rules against connection tracking in a table of nftables. None lets queries through: a table cannot let through what another one drops."""

    def __init__(self, addresses: list[Address], port: str, health_port: str) -> None:
        self.family = "ip" if addresses[0].version == 4 else "ip6"
        #: All that the table has, in the order of `nft list`.
        self.lines: dict[str, list[str]] = {"prerouting": [], "output": []}
        for _, chain, arguments in (rule for rule in wanted(addresses, port, health_port) if rule[0] == "raw"):
            self.lines[chain.lower()].append(self._line(arguments))
        self.rules: list[Rule] = [("nft", f"{self.family} {TABLE}", [])]

    def _line(self, arguments: list[str]) -> str:
        """An iptables rule in nft's words."""
        protocol, direction, address, side, port = arguments[1:6]
        where, what = ("daddr", "dport") if (direction, side) == ("-d", "--dport") else ("saddr", "sport")
        return f'{self.family} {where} {address} {protocol} {what} {port} notrack comment "{SKIP[-1]}"'

    def ensure(self, rule: Rule) -> bool:
        """Make the table unless it is there as it has to be. Returns whether it was. Raises RulesError."""
        listed = _run(["nft", "-nn", "list", "table", self.family, TABLE], "", (0, 1))
        found = [line.strip() for line in listed.stdout.splitlines() if SKIP[-1] in line]
        if listed.returncode == 0 and found == self.lines["prerouting"] + self.lines["output"]:
            return True
        chains = "".join(
            f"chain {chain} {{\ntype filter hook {chain} priority raw; policy accept;\n" + "\n".join(lines) + "\n}\n" for chain, lines in self.lines.items()
        )
        # One transaction: there is no moment without rules.
        table = f"table {self.family} {TABLE}"
        _run(["nft", "-f", "-"], f"{table}\ndelete {table}\n{table} {{\n{chains}}}\n", (0,))
        return False

    def remove(self, rule: Rule) -> None:
        """Delete the table. Raises RulesError."""
        table = f"table {self.family} {TABLE}"
        _run(["nft", "-f", "-"], f"{table}\ndelete {table}\n", (0,))


def find_rules(addresses: list[Address], port: str, health_port: str) -> Rules | NftRules:
    """Rules of iptables, or those of nft where the node's kernel or image has no iptables."""
    rules = Rules(addresses, port, health_port)
    if shutil.which("nft") is None:
        return rules
    try:
        table, chain, arguments = rules.rules[0]
        rules._run("-t", table, "-C", chain, *arguments, missing=True)
    except RulesError as error:
        return rules if error.locked else NftRules(addresses, port, health_port)
    return rules


def _run(command: list[str], text: str, statuses: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
    """Run a command with this standard input. Raises RulesError for another exit status."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_LIMIT, input=text)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RulesError(str(error)) from None
    if done.returncode not in statuses:
        raise RulesError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return done


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
