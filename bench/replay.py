"""Cases whose instructions are counted, run one after the other: ``python -m fastdns.bench.replay FOLDER``.

A case is a Corefile, questions and what their answers must look like. Each is warmed, then replayed with `Replay.counting` set. The folder has what
`write_parts` writes, and gets replay.json: the compiler and the queries of each case, in the order in which callgrind writes its sums down.
`instructions` runs this under valgrind.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdns.protocol.header import flags_rcode

if TYPE_CHECKING:
    from fastdns.bench.micro.replay import Replay

__all__ = ["ADDITIONS", "CASES", "OTHERS", "Case", "main", "write_parts"]

SEED = 20_111
BATCH = 32  # as many as the engine takes at once
#: Batches before those that count, and those that do. Few: the same instructions run each time.
WARM = 12
COUNTED = 16
#: About what a worker answers: it has 5 µs for each.
SATURATION = 200_000

SERVICES = 1000
NAMESPACES = 40
#: Headless services, and their endpoints, all of the client's zone.
SETS = 100
SET_ENDPOINTS = 3
#: A look-up takes as many instructions in a zone of a million names, and that takes minutes to read under valgrind.
ZONE_NAMES = 10_000
BLOCKED_NAMES = 10_000
A, PTR, AAAA, SRV = 1, 12, 28, 33
NOERROR, NXDOMAIN = 0, 3

#: What kubeadm writes, cache disabled for the cluster's own names; {upstream} and {folder} are filled in. Directives that are on no query's way
#: (health, ready, reload) are left out.
KUBEADM = """
errors
kubernetes cluster.local in-addr.arpa ip6.arpa {
    manifests {folder}/cluster.json
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
    ttl 30
}
prometheus 127.0.0.1:0
forward . {upstream} {
    max_concurrent 1000
}
cache 30 {
    disable success cluster.local
    disable denial cluster.local
}
loop
loadbalance
"""

#: The same where pods are watched, of which there are none.
VERIFIED = KUBEADM.replace("pods insecure", "pods verified")

#: The same with headless services, and a pod that is the client.
HEADLESS = VERIFIED.replace("cluster.json", "cluster.json {folder}/sets.json")

ZONE = "file {folder}/zone example.org"

#: Ten rules in front of it: four of acl and six of rewrite, of which the last one fits names below corp.example.
RULES = """
acl {
    block net 198.51.100.0/24
    filter type HINFO
    drop type ANY net 203.0.113.0/24
    allow net 127.0.0.0/8
}
rewrite type ANY HINFO
rewrite name exact old.example.org new.example.org
rewrite name prefix legacy current
rewrite name substring .internal. .local.
rewrite name regex (.*)-v1[.]example[.]org[.]$ {1}.example.org
rewrite name suffix .corp.example. .cluster.local. answer auto
"""


def tenants(teams: int) -> str:
    """What the pods of each of so many teams may ask for. The client is no pod: a network behind them all is its."""
    shared = "".join(f"    allow namespace team-{i} target team-{i} shared-{i % 10}\n" for i in range(teams))
    return f"acl cluster.local {{\n{shared}    allow net 127.0.0.0/8 target TARGETS\n    nxdomain target *\n}}\n".replace(
        "TARGETS", " ".join(f"team-{i}" for i in range(NAMESPACES))
    )


def networks(count: int) -> str:
    """Rules for zones of their own, policies for networks near the client's and for types; the last one of the last rule is the client's."""
    rules = "".join(f"acl zone-{i}.example {{\n    block type TXT\n}}\n" for i in range(count - 1))
    lines = "".join(f"    block type {('A', 'AAAA', 'TXT')[i % 3]} net 127.{i // 255}.{i % 255 + 1}.0/24\n" for i in range(count - 1))
    return f"{rules}acl {{\n{lines}    allow net 127.0.0.0/8\n    block\n}}\n"


Names = Callable[[random.Random], str]


@dataclass(frozen=True)
class Case:
    """Questions of one kind to one configuration."""

    name: str
    block: str
    ask: Names
    qtype: int = A
    rcode: int = NOERROR
    #: Records that each answer section must have.
    answers: int = 1
    #: Distinct questions; 0: none is asked twice.
    distinct: int = 256
    edns: bool = False
    #: Half of the clients have the same block of another configuration.
    canary: bool = False
    #: Queries a second by the worker's clock; 0: the clock stands still.
    rate: int = 0
    #: Batches that count.
    counted: int = COUNTED


# ---- the names ----


def service(i: int) -> str:
    return f"service-{i}.team-{i % NAMESPACES}"


def cluster_name(choice: random.Random) -> str:
    return f"{service(choice.randrange(SERVICES))}.svc.cluster.local."


def set_name(choice: random.Random) -> str:
    return f"set-{choice.randrange(SETS)}.team-0.svc.cluster.local."


def searched_name(choice: random.Random) -> str:
    """What ndots:5 makes of a name outside of the cluster."""
    return f"www{choice.randrange(1000)}.example.org.team-{choice.randrange(NAMESPACES)}.svc.cluster.local."


def port_name(choice: random.Random) -> str:
    return f"_http._tcp.{cluster_name(choice)}"


def reverse_name(choice: random.Random) -> str:
    i = choice.randrange(SERVICES)
    return f"{i % 250 + 1}.{i // 250}.96.10.in-addr.arpa."


def corporate_name(choice: random.Random) -> str:
    return f"{service(choice.randrange(SERVICES))}.svc.corp.example."


def outside_name(choice: random.Random) -> str:
    return f"host-{choice.randrange(10**6)}.example.org."


def hosts_name(choice: random.Random) -> str:
    return f"host-{choice.randrange(SERVICES)}.example.org."


def zone_name(choice: random.Random) -> str:
    """One that has an address of its own: see workloads.zonefile."""
    return f"host-{choice.randrange(ZONE_NAMES // 10) * 10 + 5}.example.org."


def absent_name(choice: random.Random) -> str:
    return f"none-{choice.randrange(ZONE_NAMES)}.example.org."


def without(name: str) -> str:
    """kubeadm's chain without a directive."""
    lines = KUBEADM.strip().splitlines()
    first = next(i for i, line in enumerate(lines) if line.split()[0] == name)
    last = first
    if lines[first].endswith("{"):
        last = next(i for i in range(first, len(lines)) if lines[i] == "}")
    return "\n".join(lines[:first] + lines[last + 1 :])


#: What each directive of kubeadm's chain adds to a query for a service, and others that are not in it: the differences of two of these to the first.
ADDITIONS = ("errors", "prometheus", "forward", "cache", "loop", "loadbalance")
OTHERS = {
    "log": "log",
    "acl": "acl {\n    block net 192.0.2.0/24\n}",
    "any": "any",
    "blocklist": "blocklist {folder}/blocklist",
    "bufsize": "bufsize 1232",
    "filter_aaaa": "filter_aaaa {\n    family 4\n}",
    "header": "header {\n    response set ra\n}",
    "hosts": "hosts {folder}/hosts {\n    fallthrough\n}",
    "local": "local",
    "recorder": "recorder 16MiB",
    "shadow": "shadow {shadowed} {\n    rate 1000000\n    buffer 256MiB\n}",
    "minimal": "minimal",
    "rrl": "rrl {\n    responses-per-second 1000000\n    requests-per-second 1000000\n}",
    "cookies": "cookies",
    "siit": "siit",
    "slo": "slo 99% 5ms",
    "top": "top",
}

CASES = (
    Case("kubernetes", KUBEADM, cluster_name),
    Case("kubernetes nodata", KUBEADM, cluster_name, qtype=AAAA, answers=0),
    Case("kubernetes withheld", f"filter_aaaa\n{KUBEADM}", cluster_name, qtype=AAAA, answers=0),
    Case("kubernetes edns", KUBEADM, cluster_name, edns=True),
    Case("kubernetes srv", KUBEADM, port_name, qtype=SRV),
    Case("kubernetes ptr", KUBEADM, reverse_name, qtype=PTR),
    Case("headless", HEADLESS, set_name, answers=SET_ENDPOINTS),
    Case("headless by zone", HEADLESS.replace("ttl 30", "ttl 30\n    topology zone"), set_name, answers=SET_ENDPOINTS),
    Case("nxdomain", KUBEADM, searched_name, rcode=NXDOMAIN, answers=0),
    Case("cache", KUBEADM, outside_name),
    Case("forward", KUBEADM, outside_name, distinct=0),
    Case("forward alone", "forward . {upstream}", outside_name, distinct=0),
    Case("hosts", "hosts {folder}/hosts {\n    fallthrough\n}", hosts_name),
    Case("whoami", "whoami", outside_name, answers=0),
    Case("zone", ZONE, zone_name),
    Case("zone nodata", ZONE, zone_name, qtype=SRV, answers=0),
    Case("zone nxdomain", ZONE, absent_name, rcode=NXDOMAIN, answers=0),
    *(Case(f"without {name}", without(name), cluster_name) for name in ADDITIONS),
    *(Case(f"with {name}", KUBEADM + text + "\n", cluster_name) for name, text in OTHERS.items() if name != "slo"),
    *(Case(f"with {count} acl", KUBEADM + networks(count), cluster_name) for count in (1, 1000)),
    *(Case(f"with {count} tenants", VERIFIED + tenants(count), cluster_name) for count in (1, 1000)),
    Case("with ten rules", KUBEADM + RULES, cluster_name),
    Case("with ten rules that rewrite", KUBEADM + RULES, corporate_name),
    Case("with canary", KUBEADM, cluster_name, canary=True),
    Case("with top, saturated", KUBEADM + "top\n", cluster_name, rate=SATURATION, counted=200),
    # The last one: with it queries have times of arrival, as long as its configuration is there, at whatever server has the same address.
    Case("with slo", KUBEADM + OTHERS["slo"] + "\n", cluster_name),
)


# ---- messages ----


def query(number: int, name: str, qtype: int, edns: bool) -> bytes:
    from fastdns._wire import name_wire

    message = struct.pack("!6H", number, 0x0100, 1, 0, 0, int(edns)) + name_wire(name) + struct.pack("!2H", qtype, 1)
    return message + (b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0) if edns else b"")


def answer(question: bytes) -> bytes:
    """An upstream's: one address, the owner as a pointer."""
    end = question.index(b"\0", 12) + 5
    record = struct.pack("!3HIH4B", 0xC00C, A, 1, 300, 4, 192, 0, 2, 1)
    return question[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0) + question[12:end] + record


def check(case: Case, asked: Sequence[bytes], replies: Sequence[bytes]) -> None:
    """Every question answered as the case wants it: numbers of anything else would mean nothing. Raises AssertionError."""
    if sorted(reply[:2] for reply in replies) != sorted(message[:2] for message in asked):
        raise AssertionError(f"{case.name}: {len(asked)} queries, {len(replies)} replies")
    for reply in replies:
        flags, _, answers = struct.unpack("!3H", reply[2:8])
        if (flags_rcode(flags), answers) != (case.rcode, case.answers):
            raise AssertionError(f"{case.name}: rcode {flags_rcode(flags)} and {answers} answers instead of {case.rcode} and {case.answers}")


# ---- the parts ----


@dataclass
class Upstream:
    """A socket that is asked, and answered from, by hand."""

    sock: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def __post_init__(self) -> None:
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.sock.getsockname()[1]}"

    def reply(self, count: int) -> None:
        for _ in range(count):
            question, client = self.sock.recvfrom(4096)
            self.sock.sendto(answer(question), client)

    def reply_always(self) -> None:
        self.sock.settimeout(None)
        while True:
            self.reply(1)


def write_parts(folder: Path, names: Sequence[str] = ()) -> None:
    """What the cases of these names (all, if none are given) need: the cluster's manifests, a hosts file, a list of names, a zone."""
    from fastdns.bench.workloads.zonefile import Zone

    with open(folder / "cluster.json", "w", encoding="ascii") as file:
        items: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{i}", "resourceVersion": "1"}} for i in range(NAMESPACES)
        ]
        for i in range(SERVICES):
            name, namespace = service(i).split(".")
            address = f"10.96.{i // 250}.{i % 250 + 1}"
            ports = [{"name": "http", "protocol": "TCP", "port": 80}]
            meta = {"name": name, "namespace": namespace, "resourceVersion": "1"}
            items.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": address, "clusterIPs": [address], "ports": ports}})
        json.dump({"apiVersion": "v1", "kind": "List", "items": items}, file)
    with open(folder / "sets.json", "w", encoding="ascii") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": list(sets())}, file)
    with open(folder / "hosts", "w", encoding="ascii") as file:
        file.writelines(f"192.0.2.{i % 250 + 1} host-{i}.example.org\n" for i in range(SERVICES))
    with open(folder / "blocklist", "w", encoding="ascii") as file:
        file.writelines(f"{'ads.' * (i % 3)}site{i}.example\n" for i in range(BLOCKED_NAMES))
    if any(case.block == ZONE for case in CASES if not names or case.name in names):
        with open(folder / "zone", "w", encoding="ascii") as file:
            file.writelines(Zone("example.org", ZONE_NAMES).lines())


def sets() -> Iterator[dict[str, Any]]:
    """Headless services, and a pod with the client's address in the zone of their endpoints."""
    ports = [{"name": "http", "protocol": "TCP", "port": 80}]

    def meta(name: str, **labels: str) -> dict[str, Any]:
        return {"name": name, "namespace": "team-0", "resourceVersion": "1", "labels": {key.replace("_", "/"): value for key, value in labels.items()}}

    yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta("client"), "spec": {"nodeName": "pool-a-worker-0"}, "status": {"podIP": "127.0.0.1"}}
    for i in range(SETS):
        spec = {"clusterIP": "None", "clusterIPs": ["None"], "ports": ports}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": meta(f"set-{i}"), "spec": spec}
        endpoints = [{"addresses": [f"10.0.{i}.{k}"], "nodeName": f"pool-a-worker-{k}", "zone": "eu-central-1a"} for k in range(SET_ENDPOINTS)]
        labels = {"kubernetes.io_service-name": f"set-{i}"}
        yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta(f"set-{i}-1", **labels), "endpoints": endpoints, "ports": ports}


def serve(block: str, canary: bool = False) -> Replay:
    """An engine that serves one block for all names, not started; everything that its plugins wait for is there."""
    from fastdns.bench.micro.replay import Replay
    from fastdns.engine.engine import Engine
    from fastdns.server.configuration import Configuration, run_hooks
    from fastdns.server.instance import Instance
    from fastdns.server.source import Source

    text = ".:0 {\nbind 127.0.0.1\n" + block + "\n}\n"
    engine = Engine(1)
    instances: list[Instance] = []
    for _ in range(2 if canary else 1):
        configuration = Configuration(Source(text.encode(), "Corefile"), "0")
        configuration.start(True)
        instance = Instance(configuration)
        instance.open(engine, instances[0].listeners if instances else {}, {})
        if instances:
            engine.begin_canary(instance.prepare(engine), 0.5, SEED.to_bytes(16, "little"))
        else:
            instance.publish(engine)
        run_hooks(instance.hooks.started, "startup")
        for config in configuration.configs:
            for handler in config.handlers:
                wait_for(handler)
        instances.append(instance)
    listener: Any = next(iter(instances[0].listeners.values()))
    replay = Replay(engine, listener, SEED)
    kept.append((instances, engine, replay))
    return replay


#: What was served lives on: its threads may still look at it.
kept: list[Any] = []


def wait_for(handler: Any) -> None:
    ready = getattr(handler, "ready", None)
    while ready is not None and not ready():
        time.sleep(0.01)
    if handler.name == "loop":
        handler.disable()  # as it is after the first half minute


def wait_for_shadow() -> None:
    """One question tries the other server out."""
    for instance in kept[-1][0]:
        for config in instance.configuration.configs:
            if (shadow := config.handler("shadow")) is not None:
                while not shadow.target.is_up:
                    time.sleep(0.01)


def batches(case: Case) -> Iterator[list[bytes]]:
    choice = random.Random(SEED)
    names: list[str] = []
    number = 0
    while True:
        batch = []
        for _ in range(BATCH):
            if case.distinct and len(names) == case.distinct:
                name = choice.choice(names)
            else:
                name = case.ask(choice)
                names.append(name)
            number = number + 1 & 0xFFFF
            batch.append(query(number, name, case.qtype, case.edns))
        yield batch


def run(case: Case, fill: dict[str, str], upstream: Upstream) -> int:
    """Replay a case; the number of queries that were counted."""
    from fastdns.bench.micro.replay import write_down

    block = case.block
    for key, value in fill.items():
        block = block.replace("{" + key + "}", value)
    replay = serve(block, case.canary)
    counted = 0
    for turn, batch in enumerate(batches(case)):
        if turn == WARM:
            wait_for_shadow()
            saturate(replay, case.rate, batch)
            replay.counting = True
        if turn == WARM + case.counted:
            break
        counted += BATCH * replay.counting
        replies = list(replay.serve(batch))
        if len(replies) < len(batch):  # the others ask upstream
            upstream.reply(len(batch) - len(replies))
            while len(replies) < len(batch) and (more := replay.wake(10)):
                replies += more
        check(case, batch, replies)
    write_down()
    return counted


def saturate(replay: Replay, rate: int, batch: Sequence[bytes]) -> None:
    """Let a worker see so many queries a second: for two of the spans of 0.1 s by which *top* chooses its share."""
    if not rate:
        return
    replay.step = BATCH * 1_000_000_000 // rate
    for _ in range(rate // 5 // BATCH):
        replay.serve(batch)


def main(arguments: Sequence[str]) -> None:
    from fastdns.bench.micro.seed import fix_name_hash

    fix_name_hash(SEED)
    from fastdns.bench.micro.replay import compiler, fix_cluster_hash

    fix_cluster_hash(SEED)
    wanted = arguments[1:]
    found: dict[str, int] = {}
    upstream, shadowed = Upstream(), Upstream()
    threading.Thread(target=shadowed.reply_always, daemon=True).start()  # callgrind counts the thread that replays alone
    fill = {"folder": arguments[0], "upstream": upstream.address, "shadowed": shadowed.address}
    for case in CASES:
        if not wanted or case.name in wanted:
            found[case.name] = run(case, fill, upstream)
    (Path(arguments[0]) / "replay.json").write_text(json.dumps({"compiler": compiler(), "queries": found}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
