"""acl: random policies with every kind of section, compared with a search from the first one on."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import yaml

from tests.plugins.acl.test_pods import pod
from tests.plugins.acl.test_tables import outcome
from tests.plugins.acl.test_tenants import headless, service, thing
from tests.server import Server
from tests.waiting import until

NAMESPACES = tuple(f"n{number}" for number in range(6))
KEYS = ("app", "tier", "track")
VALUES = ("a", "b", "c")
TYPES = ("A", "AAAA", "TXT", "MX", "TA")


@dataclass
class Client:
    kind: str = "unknown"
    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)


CLIENTS = {
    **{f"127.0.0.{number + 1}": Client("pod", name, {"app": VALUES[number % 3], "tier": VALUES[number // 3]}) for number, name in enumerate(NAMESPACES)},
    "127.0.0.20": Client("node"),
    "127.0.0.40": Client(),
    "127.0.1.1": Client("pod", "n0", {"track": "c"}),
    "127.0.1.2": Client(),
}

#: Names and the namespaces that their answers may name.
NAMES = {
    **{f"db.{name}.svc.cluster.local.": {name} for name in NAMESPACES},
    "n0.svc.cluster.local.": {"n0"},
    "svc.cluster.local.": set(),
    "1.0.1.10.in-addr.arpa.": {"n0"},
    "9.0.1.10.in-addr.arpa.": {"n0", "n1"},
    "www.test.": set(),
    **{f"www.z{number}.test.": set() for number in range(4)},
}
#: Other types of these do not exist.
ONLY = {"n0.svc.cluster.local.": "A", "svc.cluster.local.": "A", "1.0.1.10.in-addr.arpa.": "PTR", "9.0.1.10.in-addr.arpa.": "PTR"}

ZONES = (".", "cluster.local", "svc.cluster.local", "in-addr.arpa", "test", *(f"{name}.svc.cluster.local" for name in NAMESPACES[:3]))
MORE_ZONES = tuple(f"z{number}.test" for number in range(30))

OBJECTS = [
    *(thing("Namespace", name) for name in NAMESPACES),
    *(pod(f"{client.namespace}/p-{address}", address, client.labels) for address, client in CLIENTS.items() if client.kind == "pod"),
    pod("n0/agent", "127.0.0.20", {"app": "a"}, hostNetwork=True),
    *(service(f"{name}/db", f"10.96.0.{number + 1}") for number, name in enumerate(NAMESPACES)),
    *headless("n0/set", "10.1.0.1", "10.1.0.9"),
    *headless("n1/set", "10.1.0.9"),
]


@cache
def inside(address: str, text: str) -> bool:
    return ip_address(address) in ip_network(text)


@dataclass
class Line:
    """A policy: section -> values. Of labels each section stands for itself."""

    action: str
    audit: bool
    sections: dict[str, list[str]]
    labels: list[list[str]]

    @property
    def text(self) -> str:
        sections = [(name, values) for name, values in self.sections.items() if values] + [("label", values) for values in self.labels]
        return " ".join([*(["audit"] if self.audit else []), self.action, *(f"{name} {' '.join(values)}" for name, values in sections)])

    def matches(self, rdtype: str, address: str, targets: set[str]) -> bool:
        client = CLIENTS[address]
        types, networks, kinds, namespaces, named = (self.sections.get(name) for name in ("type", "net", "client", "namespace", "target"))
        return (
            (not types or rdtype in types)
            and (not networks or any(inside(address, text) for text in networks))
            and (not kinds or client.kind in kinds)
            and (not namespaces or client.namespace in namespaces)
            and all(any(client.labels.get(key) == value for key, value in (text.split("=") for text in values)) for values in self.labels)
            and (not named or self.is_for(named, client, targets))
        )

    def is_for(self, named: list[str], client: Client, targets: set[str]) -> bool:
        found = ["*" in named or target in named or ("own" in named and target == client.namespace) for target in targets]
        return bool(found) and (all(found) if self.action == "allow" else any(found))


#: Who is allowed everything, and a name that a rule of its own is for: they show when the cluster is known.
WATCHER, PROBE = "127.0.0.99", "probe.example"

#: Zones and policies of each directive.
Rules = list[tuple[list[str], list[Line]]]


def network(choice: random.Random) -> str:
    bits = choice.choice((8, 16, 23, 24, 27, 30, 32, 32))
    return str(ip_network((int(ip_address(choice.choice(tuple(CLIENTS)))), bits), strict=False))


def some(choice: random.Random, values: tuple[str, ...]) -> list[str]:
    return choice.sample(values, choice.choice((1, 1, 2)))


def line(choice: random.Random) -> Line:
    """Two sections at least, so that policies far behind are reached."""
    audit = choice.random() < 0.2
    sections: dict[str, list[str]] = {}
    labels: list[list[str]] = []
    for name in choice.sample(("type", "net", "client", "namespace", "label", "target"), choice.choice((2, 3, 3, 4))):
        if name == "label":
            labels = [[f"{key}={choice.choice(VALUES)}" for key in some(choice, KEYS)] for _ in range(choice.choice((1, 1, 2)))]
        elif name == "net":
            sections[name] = [network(choice) for _ in range(choice.choice((1, 1, 3)))]
        else:
            values = {"type": (*TYPES, "PTR"), "client": ("pod", "node", "unknown"), "namespace": NAMESPACES, "target": (*NAMESPACES, "own", "*")}[name]
            sections[name] = some(choice, values)
    return Line(choice.choice(("block", "filter", "nxdomain", "drop") if audit else ("allow", "block", "filter", "nxdomain")), audit, sections, labels)


def targets(name: str, address: str) -> set[str]:
    """Namespaces that the answer to a client names.

    An address that no pod has belongs to the client's own namespace, if one of its slices names the address.
    """
    own = CLIENTS[address].namespace
    return {own} if own in NAMES[name] else NAMES[name]


def first(rules: Rules, name: str, rdtype: str, address: str) -> tuple[Line | None, Line | None]:
    """The policy that decides, and the audit before it that would."""
    audited = None
    for zones, lines in rules:
        if any(zone == "." or name == f"{zone}." or name.endswith(f".{zone}.") for zone in zones):
            for candidate in lines:
                if candidate.matches(rdtype, address, targets(name, address)):
                    if not candidate.audit:
                        return candidate, audited
                    audited = audited or candidate
    return None, audited


def audits(server: Server) -> Counter[int]:
    """Queries by the line of the audit."""
    found: Counter[int] = Counter()
    page = server.get(server.ports["port2"], "/metrics")
    for number, count in re.findall(r'^fastdns_acl_audited_requests_total\{.*rule="[^"]*:(\d+)".*\} (\d+)$', page, re.M):
        found[int(number)] += int(count)
    return found


def prepare(folder: Path) -> None:
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))


# Tables with a single word, with several, several tables; more networks and types than a table combines; zones compared one by one, and looked up.
@pytest.mark.parametrize(
    ("seed", "directives", "each", "others", "zones"),
    [
        (3, 4, 8, 0, ZONES[:5]),
        (1, 56, 1, 0, ZONES + MORE_ZONES),
        (2, 4, 60, 0, ZONES[:5]),
        (4, 120, 8, 0, ZONES + MORE_ZONES),
        (5, 120, 8, 2000, ZONES + MORE_ZONES),
        (6, 30, 300, 0, ZONES + MORE_ZONES),
    ],
)
def test_the_first_policy_decides(serve: Callable[..., Server], seed: int, directives: int, each: int, others: int, zones: tuple[str, ...]) -> None:
    choice = random.Random(seed)
    rules: Rules = [(["."], [Line("block", False, {"net": [f"10.0.{i // 250}.{i % 250}"]}, []) for i in range(others)])]
    rules += [(some(choice, zones), [line(choice) for _ in range(each)]) for _ in range(directives)]
    # The places of audits in metrics are lines.
    text = f".:{{port}} {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{{port2}}\nacl {{\nallow net {WATCHER}\n}}\nacl {PROBE} {{\nallow namespace n5\nblock\n}}\n"
    places: dict[int, int] = {}
    for named, lines in rules:
        text += f"acl {' '.join(named)} {{\n"
        for policy in lines:
            places[id(policy)] = text.count("\n") + 1
            text += f"{policy.text}\n"
        text += "}\n"
    text += "kubernetes cluster.local in-addr.arpa {\nmanifests {dir}/objects.yaml\npods verified\n}\nwhoami\n}\n"
    server = serve(text, prepare=prepare)
    until(lambda: server.answers("db.n5.svc.cluster.local.", source=WATCHER) == ["10.96.0.6"])
    until(lambda: len(server.answers("9.0.1.10.in-addr.arpa.", "PTR", source=WATCHER)) == 2)
    until(lambda: outcome(server.query(f"{PROBE}.", source="127.0.0.6")) == "allow")
    before = audits(server)
    counted: Counter[int] = Counter()
    decided: set[int] = set()
    for _ in range(400):
        name, rdtype, address = choice.choice(tuple(NAMES)), choice.choice((*TYPES, "SRV")), choice.choice(tuple(CLIENTS))
        rdtype = ONLY.get(name, rdtype)
        policy, audited = first(rules, name, rdtype, address)
        reply = server.query(name, rdtype, source=address)
        where = policy and (places[id(policy)], policy.text)
        assert outcome(reply) == ("allow" if policy is None else policy.action), (name, rdtype, address, where)
        if policy is not None:
            decided.add(id(policy))
        if audited is not None:
            counted[places[id(audited)]] += 1
    assert audits(server) - before == counted
    assert len(decided) > 2
    assert counted
