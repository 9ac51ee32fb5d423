"""acl: policies for namespaces that questions are for, NXDOMAIN, and audits."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
import yaml

from fastdns.plugins.acl.rules import KIND, Policy, parse
from fastdns.setup import Controller
from tests.plugins.acl.test_acl import ZONE
from tests.plugins.acl.test_pods import FILLERS, pod
from tests.server import Server, command
from tests.waiting import LIMIT, until


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("nxdomain", Policy("nxdomain")),
        ("allow target own Kube-System", Policy("allow", targets=("own", "kube-system"))),
        ("audit NXDOMAIN target * type A", Policy("nxdomain", (1,), targets=("*",), audit=True)),
        ("Audit drop target a target b", Policy("drop", targets=("a", "b"), audit=True)),
        ("filter client node unknown", Policy("filter", conditions=(((KIND, "node"), (KIND, "unknown")),))),
    ],
)
def test_policies(line: str, wanted: Policy) -> None:
    ((zones, (policy,)),) = parse(Controller.of(f"acl {{\n {line}\n}}", ["example.org"]))
    assert zones == ZONE
    assert policy._replace(place=None) == wanted


# ---- a cluster ----

A, A6, B, NODE, NOBODY = "127.0.0.10", "::1", "127.0.0.11", "127.0.0.20", "127.0.0.99"


def thing(kind: str, name: str, **content: Any) -> dict[str, Any]:
    namespace, _, name = name.rpartition("/")
    api = "discovery.k8s.io/v1" if kind == "EndpointSlice" else "v1"
    labels = {"kubernetes.io/service-name": content.pop("service")} if kind == "EndpointSlice" else {}
    metadata = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}


def service(name: str, address: str) -> dict[str, Any]:
    ports = [{"name": "sql", "protocol": "TCP", "port": 5432}]
    return thing("Service", name, spec={"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports})


def alias(name: str, target: str) -> dict[str, Any]:
    return thing("Service", name, spec={"type": "ExternalName", "externalName": target})


def headless(name: str, *addresses: str, kind: str = "IPv4") -> list[dict[str, Any]]:
    endpoints = [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]
    ports = [{"name": "sql", "protocol": "TCP", "port": 5432}]
    return [
        thing("Service", name, spec={"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "ports": ports}),
        thing("EndpointSlice", f"{name}-1", service=name.partition("/")[2], addressType=kind, endpoints=endpoints, ports=ports),
    ]


OBJECTS = [
    *(thing("Namespace", name) for name in ("a", "b", "kube-system", "own")),
    pod("a/client", A),
    pod("a/client6", A6),
    pod("b/client", B),
    pod("kube-system/agent", NODE, hostNetwork=True),
    service("a/db", "10.96.0.1"),
    service("b/db", "10.96.0.2"),
    service("kube-system/dns", "10.96.0.3"),
    service("own/db", "10.96.0.4"),
    *headless("a/set", "10.1.0.1", "10.1.0.9"),
    *headless("b/set", "10.1.0.2", "10.1.0.9"),
    alias("a/mine", "db.a.svc.cluster.local"),
    alias("a/theirs", "db.b.svc.cluster.local"),
    alias("a/detour", "mine.a.svc.cluster.local"),
    alias("a/way", "theirs.a.svc.cluster.local"),
    alias("a/outside", "www.elsewhere.test"),
    alias("b/back", "db.a.svc.cluster.local"),
    alias("a/there", "back.b.svc.cluster.local"),
    alias("a/circle", "circle.b.svc.cluster.local"),
    alias("b/circle", "circle.a.svc.cluster.local"),
    *headless("a/hosts", "db.a.svc.cluster.local", "db.b.svc.cluster.local", kind="FQDN"),
]


def prepare(folder: Path) -> None:
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))


def corefile(rules: str, more: str = "", pods: str = "verified", zones: str = "cluster.local in-addr.arpa") -> str:
    return f""".:{{port}} {{
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{{port2}}
    {more}
{rules}
    hosts {{
        192.0.2.80 www.elsewhere.test
        fallthrough
    }}
    kubernetes {zones} {{
        manifests {{dir}}/objects.yaml
        pods {pods}
    }}
}}
"""


OWN = """
    acl cluster.local in-addr.arpa {
        allow target own kube-system
        allow client node target b
        nxdomain target *
    }
"""
NAMED = """
    acl {
        allow type AXFR net 127.0.0.50
        allow target a b net 127.0.0.50
        filter target b
        block target a type TXT
    }
"""


@pytest.fixture(scope="module", params=FILLERS.values(), ids=[str(count) for count in FILLERS])
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("own")
    prepare(folder)
    with Server(folder, corefile(request.param + OWN)) as running:
        until(lambda: running.answers("db.a.svc.cluster.local.", source=A) == ["10.96.0.1"])
        yield running


@pytest.fixture(scope="module", params=FILLERS.values(), ids=[str(count) for count in FILLERS])
def named(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("named")
    prepare(folder)
    with Server(folder, corefile(request.param + NAMED, pods="disabled", more="transfer cluster.local {\n        to 127.0.0.50 127.0.0.51\n    }")) as running:
        until(lambda: running.answers("db.a.svc.cluster.local.") == ["10.96.0.1"])
        yield running


def outcome(reply: dns.message.Message) -> str:
    """The code, then the data of all records of the answer, sorted."""
    found = sorted(record.to_text() for rrset in reply.answer for record in rrset)
    return " ".join([dns.rcode.to_text(reply.rcode()), *found])


NX = "NXDOMAIN"


@pytest.mark.parametrize(
    ("name", "rdtype", "passing", "wanted"),
    [
        ("db.a.svc.cluster.local.", "A", (A, A6), "NOERROR 10.96.0.1"),
        ("DB.A.SVC.cluster.local.", "A", (A,), "NOERROR 10.96.0.1"),
        ("db.a.svc.cluster.local.", "AAAA", (A,), "NOERROR"),
        ("db.b.svc.cluster.local.", "A", (B, NODE), "NOERROR 10.96.0.2"),
        # A namespace of that name is none of a client's.
        ("db.own.svc.cluster.local.", "A", (), "NOERROR 10.96.0.4"),
        ("dns.kube-system.svc.cluster.local.", "A", (A, B, NODE, NOBODY), "NOERROR 10.96.0.3"),
        ("_sql._tcp.db.a.svc.cluster.local.", "SRV", (A,), "NOERROR 0 100 5432 db.a.svc.cluster.local."),
        ("10-1-0-1.set.a.svc.cluster.local.", "A", (A,), "NOERROR 10.1.0.1"),
        ("set.b.svc.cluster.local.", "A", (B, NODE), "NOERROR 10.1.0.2 10.1.0.9"),
        ("127-0-0-10.a.pod.cluster.local.", "A", (A,), "NOERROR 127.0.0.10"),
        ("a.svc.cluster.local.", "A", (A,), "NOERROR"),
        ("b.pod.cluster.local.", "A", (B, NODE), "NOERROR"),
        # What belongs to no namespace is open.
        ("svc.cluster.local.", "A", (A, B, NODE, NOBODY), "NOERROR"),
        ("dns-version.cluster.local.", "TXT", (A, B, NODE, NOBODY), 'NOERROR "1.1.0"'),
        ("www.elsewhere.test.", "A", (A, B, NODE, NOBODY), "NOERROR 192.0.2.80"),
        # Addresses: of a Service, of an endpoint, of none. Those of two namespaces: see test_holders.py.
        ("1.0.96.10.in-addr.arpa.", "PTR", (A,), "NOERROR db.a.svc.cluster.local."),
        ("2.0.1.10.in-addr.arpa.", "PTR", (B, NODE), "NOERROR 10-1-0-2.set.b.svc.cluster.local."),
        ("77.0.1.10.in-addr.arpa.", "PTR", (), ""),
    ],
)
def test_own_namespace(own: Server, name: str, rdtype: str, passing: tuple[str, ...], wanted: str) -> None:
    for client in (A, A6, B, NODE, NOBODY):
        asking = {"host": client} if client == A6 else {"source": client}
        if client != A6 or A not in passing or A6 in passing:
            assert outcome(own.query(name, rdtype, **asking)) == (wanted if client in passing else NX), client
    if A in passing:
        assert outcome(own.query(name, rdtype, source=A, tcp=True)) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("mine", "NOERROR 10.96.0.1 db.a.svc.cluster.local."),
        ("theirs", "NOERROR db.b.svc.cluster.local."),
        ("detour", "NOERROR 10.96.0.1 db.a.svc.cluster.local. mine.a.svc.cluster.local."),
        ("way", "NOERROR db.b.svc.cluster.local. theirs.a.svc.cluster.local."),
        ("outside", "NOERROR 192.0.2.80 www.elsewhere.test."),
        ("there", "NOERROR back.b.svc.cluster.local."),
        ("circle", "NOERROR circle.b.svc.cluster.local."),
        # Of two CNAME records dnspython has the last one.
        ("hosts", "NOERROR 10.96.0.1 db.b.svc.cluster.local."),
    ],
)
def test_aliases_lead_no_further_than_questions(own: Server, name: str, wanted: str) -> None:
    assert outcome(own.query(f"{name}.a.svc.cluster.local.", "A", source=A)) == wanted


def test_denials_are_those_of_the_zone(own: Server) -> None:
    reply = own.query("db.b.svc.cluster.local.", "A", source=A)
    (rrset,) = reply.authority
    assert rrset.name.to_text() == "cluster.local."
    assert rrset.rdtype == dns.rdatatype.SOA
    assert reply.flags & dns.flags.AA
    assert reply.edns == -1
    # What is not there is denied alike.
    absent = own.query("none.b.svc.cluster.local.", "A", source=A)
    assert (absent.rcode(), absent.authority, absent.flags) == (reply.rcode(), reply.authority, reply.flags)
    (option,) = own.query("db.b.svc.cluster.local.", "A", source=A, use_edns=0).options
    assert isinstance(option, dns.edns.EDEOption)
    assert option.code == dns.edns.EDECode.BLOCKED
    (rrset,) = own.query("2.0.96.10.in-addr.arpa.", "PTR", source=A).authority
    assert rrset.name.to_text() == "in-addr.arpa."


def test_without_a_zone_there_is_no_soa(serve: Callable[..., Server]) -> None:
    server = serve("a.test:{port} {\n acl {\n nxdomain net 127.0.0.9\n }\n whoami\n}\n")
    reply = server.query("www.a.test.", source="127.0.0.9")
    assert (outcome(reply), reply.authority, reply.flags & dns.flags.AA) == (NX, [], 0)
    assert server.query("www.a.test.").rcode() == dns.rcode.NOERROR


def test_denials_by_client_are_those_of_the_zone(serve: Callable[..., Server]) -> None:
    """Without a target, too."""
    server = serve(corefile(f"    acl {{\n        nxdomain net {NOBODY}\n    }}\n", pods="disabled"), prepare=prepare)
    until(lambda: server.answers("db.a.svc.cluster.local.") == ["10.96.0.1"])
    reply = server.query("db.a.svc.cluster.local.", source=NOBODY)
    assert (outcome(reply), [rrset.name.to_text() for rrset in reply.authority]) == (NX, ["cluster.local."])
    assert server.query("www.elsewhere.test.", source=NOBODY).authority == []


@pytest.mark.parametrize(
    ("name", "rdtype", "source", "wanted"),
    [
        ("db.a.svc.cluster.local.", "A", NOBODY, "NOERROR 10.96.0.1"),
        ("db.a.svc.cluster.local.", "TXT", NOBODY, "REFUSED"),
        ("db.b.svc.cluster.local.", "A", NOBODY, "NOERROR"),
        ("db.b.svc.cluster.local.", "A", "127.0.0.50", "NOERROR 10.96.0.2"),
        # To be filtered one namespace of an address is enough, to be allowed all must be named.
        ("9.0.1.10.in-addr.arpa.", "PTR", NOBODY, "NOERROR"),
        ("9.0.1.10.in-addr.arpa.", "PTR", "127.0.0.50", "NOERROR 10-1-0-9.set.a.svc.cluster.local. 10-1-0-9.set.b.svc.cluster.local."),
        # All names of the zone: those of b among them.
        ("cluster.local.", "AXFR", "127.0.0.51", "NOERROR"),
    ],
)
def test_named_namespaces(named: Server, name: str, rdtype: str, source: str, wanted: str) -> None:
    assert outcome(named.query(name, rdtype, source=source, tcp=rdtype == "AXFR")) == wanted


def test_transfers_may_be_allowed(named: Server) -> None:
    assert "10.96.0.2" in outcome(named.query("cluster.local.", "AXFR", source="127.0.0.50", tcp=True))


def test_search_paths_stay_inside(serve: Callable[..., Server]) -> None:
    """With autopath each name of the path is a question, also where the address is that of another namespace's Service."""
    text = corefile(OWN, more="autopath @kubernetes").replace("www.elsewhere.test", "www.elsewhere.test db.b.svc")
    server = serve(text, prepare=prepare)
    until(lambda: server.answers("db.a.svc.cluster.local.", source=A) == ["10.96.0.1"])
    assert "10.96.0.1" in outcome(server.query("db.a.a.svc.cluster.local.", "A", source=A))
    assert "10.96.0.2" in outcome(server.query("db.b.b.svc.cluster.local.", "A", source=B))
    # Not db.b.svc.cluster.local, but what the end of the path gives.
    assert outcome(server.query("db.b.svc.a.svc.cluster.local.", "A", source=A)) == "NOERROR 192.0.2.80 db.b.svc."
    # No plugin answers for db.b.
    assert outcome(server.query("db.b.a.svc.cluster.local.", "A", source=A)) == "SERVFAIL"


def test_caches_do_not_pass_on(serve: Callable[..., Server]) -> None:
    server = serve(corefile(OWN, more="cache 30"), prepare=prepare)
    until(lambda: server.answers("db.b.svc.cluster.local.", source=B) == ["10.96.0.2"])
    for _ in range(2):
        assert outcome(server.query("db.b.svc.cluster.local.", source=A)) == NX
        assert outcome(server.query("db.b.svc.cluster.local.", source=B)) == "NOERROR 10.96.0.2"


@pytest.mark.parametrize("first", [A, NODE])
def test_caches_do_not_pass_on_what_is_behind_an_alias(serve: Callable[..., Server], first: str) -> None:
    """The alias is the client's own; whether it gets the addresses is for acl to say each time."""
    rules = "    acl cluster.local {\n        allow target own\n        allow client node\n        nxdomain target *\n    }\n"
    server = serve(corefile(rules, more="cache 30"), prepare=prepare)
    until(lambda: server.answers("db.b.svc.cluster.local.", source=B) == ["10.96.0.2"])
    wanted = {A: "NOERROR db.b.svc.cluster.local.", NODE: "NOERROR 10.96.0.2 db.b.svc.cluster.local."}
    for client in (first, *wanted, *wanted):
        assert outcome(server.query("theirs.a.svc.cluster.local.", source=client)) == wanted[client], client


def test_clients_behind_a_proxy_are_who_they_are(serve: Callable[..., Server]) -> None:
    server = serve(corefile(OWN, more="proxyproto {\n        allow 127.0.0.1/32\n    }"), prepare=prepare)
    until(lambda: server.answers("db.a.svc.cluster.local.", source=A) == ["10.96.0.1"])
    message = dns.message.make_query("db.a.svc.cluster.local.", "A")
    for client, wanted in ((A, "NOERROR 10.96.0.1"), (B, NX)):
        header = f"PROXY TCP4 {client} 127.0.0.1 1000 53\r\n".encode()
        wire = message.to_wire()
        reply = stream(server.port, header + len(wire).to_bytes(2, "big") + wire)
        assert outcome(dns.message.from_wire(reply)) == wanted


def stream(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as sock:
        sock.sendall(sent)
        with sock.makefile("rb") as received:
            return received.read(int.from_bytes(received.read(2), "big"))


# ---- audits ----

AUDITED = """
    acl cluster.local {
        allow target own
        audit nxdomain target *
        audit block
        filter type TXT
    }
    acl b.svc.cluster.local {
        block type MX
    }
"""


@pytest.mark.parametrize("filler", FILLERS.values(), ids=[str(count) for count in FILLERS])
def test_audits_count_log_and_let_pass(serve: Callable[..., Server], filler: str) -> None:
    server = serve(corefile(filler + AUDITED), prepare=prepare)
    metrics = server.ports["port2"]
    until(lambda: server.answers("db.a.svc.cluster.local.", source=A) == ["10.96.0.1"])
    for _ in range(5):
        assert outcome(server.query("db.b.svc.cluster.local.", source=A)) == "NOERROR 10.96.0.2"
    assert outcome(server.query("db.a.svc.cluster.local.", source=B)) == "NOERROR 10.96.0.1"
    # What comes after an audit is in force, and only what would have decided counts.
    assert outcome(server.query("db.b.svc.cluster.local.", "TXT", source=A)) == "NOERROR"
    assert outcome(server.query("db.b.svc.cluster.local.", "MX", source=A)) == "REFUSED"
    assert outcome(server.query("dns-version.cluster.local.", "TXT", source=A)) == "NOERROR"
    where = f'action="%s",rule="{server.folder}/Corefile:%d",server="dns://127.0.0.1:{server.port}",view="",zone="cluster.local."'
    line = server.folder.joinpath("Corefile").read_text().splitlines().index("        audit nxdomain target *") + 1
    sample = "fastdns_acl_audited_requests_total{" + where + "}"
    assert server.metric(metrics, sample % ("nxdomain", line)) == 8
    assert server.metric(metrics, sample % ("block", line + 1)) == 1
    assert server.metric(metrics, f'coredns_acl_filtered_requests_total{{server="dns://127.0.0.1:{server.port}",view="",zone="cluster.local."}}') == 2
    assert server.metric(metrics, f'coredns_acl_blocked_requests_total{{server="dns://127.0.0.1:{server.port}",view="",zone="b.svc.cluster.local."}}') == 1
    place = f"{server.folder}/Corefile:{line}"
    server.wait_log(re.escape(f"[INFO] plugin/acl: audit: nxdomain by {place}: db.b.svc.cluster.local. A from {A} in namespace a\n"))
    server.wait_log(re.escape(f"[INFO] plugin/acl: audit: nxdomain by {place}: db.a.svc.cluster.local. A from {B} in namespace b\n"))
    # One line for each worker that has had queries of the client.
    assert server.log().count(f"from {A} in namespace a") < 8


def test_answers_with_nxdomain_are_counted(serve: Callable[..., Server]) -> None:
    server = serve(corefile(OWN), prepare=prepare)
    until(lambda: server.answers("db.a.svc.cluster.local.", source=A) == ["10.96.0.1"])
    sample = f'fastdns_acl_nxdomain_requests_total{{server="dns://127.0.0.1:{server.port}",view="",zone="cluster.local."}}'
    before = server.metric(server.ports["port2"], sample)
    server.query("db.b.svc.cluster.local.", source=A)
    assert server.metric(server.ports["port2"], sample) == before + 1


# ---- Corefiles ----

PODS = "client, namespace, label and 'target own' need a plugin in the server block that knows which pod asks: kubernetes with 'pods verified'"
CLUSTER = "target needs a plugin in the server block that knows whose names these are: kubernetes"


def checked(path: Path) -> tuple[int, str]:
    done = subprocess.run([*command(), "check", str(path)], capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (". {\n acl {\n  allow type A\n  nxdomain target a\n }\n whoami\n}\n", 1, f":4: error: plugin/acl: {CLUSTER}\n    hint: target is for names"),
        (". {\n acl {\n  allow target own\n }\n KUBERNETES\n}\n", 1, f":3: error: plugin/acl: {PODS}\n    hint: add 'pods verified'"),
        (". {\n acl {\n  allow client node\n }\n KUBERNETES\n}\n", 1, f":3: error: plugin/acl: {PODS}\n    hint: add 'pods verified'"),
        (". {\n acl {\n  nxdomain target a\n }\n KUBERNETES\n}\n", 0, "OK (0 errors, 0 warnings)"),
        (
            ". {\n acl cluster.local {\n  allow target a\n  nxdomain target *\n }\n KUBERNETES\n}\n",
            0,
            ":4: warning: plugin/acl: no rule with 'target' applies to in-addr.arpa., for which the cluster's names are answered too\n    hint: add",
        ),
        (". {\n acl cluster.local {\n  nxdomain target *\n }\n acl 10.0.0.0/8 in-addr.arpa {\n  block target *\n }\n KUBERNETES\n}\n", 0, "0 warnings)"),
    ],
)
def test_checked(tmp_path: Path, text: str, status: int, said: str) -> None:
    prepare(tmp_path)
    path = tmp_path / "Corefile"
    path.write_text(text.replace("KUBERNETES", f"kubernetes cluster.local in-addr.arpa {{\n  manifests {tmp_path}/objects.yaml\n }}"))
    found = checked(path)
    assert (found[0], said in found[1]) == (status, True), found[1]


def test_explain_names_the_policy(tmp_path: Path) -> None:
    prepare(tmp_path)
    path = tmp_path / "Corefile"
    rules = "    acl cluster.local in-addr.arpa {\n        audit block type A\n        allow target own\n        nxdomain target *\n    }\n"
    text = corefile(rules).replace("{port}", "1053").replace("{port2}", "0").replace("{dir}", str(tmp_path))
    path.write_text(text.replace("pods verified", f"pods verified\n        startup_timeout {LIMIT:.0f}s"))
    first = text.splitlines().index("        audit block type A") + 1
    for name, wanted in (
        ("db.a.svc.cluster.local", f"audit: block by {path}:{first}; allow by {path}:{first + 1}"),
        ("db.b.svc.cluster.local", f"audit: block by {path}:{first}; nxdomain by {path}:{first + 2}"),
        ("svc.cluster.local", f"audit: block by {path}:{first}"),
        ("www.elsewhere.test", ""),
    ):
        words = ["explain", "-json", name, "A", "-client", A, "-conf", str(path)]
        done = subprocess.run([*command(), *words], capture_output=True, text=True, timeout=LIMIT)
        (step,) = [step for step in json.loads(done.stdout)["steps"] if step["handler"] == "acl"]
        assert step.get("note", "") == wanted, name
