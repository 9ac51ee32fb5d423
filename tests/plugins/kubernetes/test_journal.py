"""Versions of a cluster's zone: what changes from one to the next, and who gets it (IXFR, RFC 1995)."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.query
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.plugins.kubernetes.zone.changes import Changes
from fastdns.plugins.transfer._transfer import Transfer
from fastdns.plugins.transfer.journal import Row
from fastdns.plugins.transfer.version import OPTION_ZONE_DIGEST, digest_of
from fastdns.protocol.parameters import TYPE_SOA, TYPE_ZONEMD
from tests.conformance.kube_api import KubeAPI
from tests.plugins.kubernetes.objects import Object, give_list, manifest, namespace, service, slice_of
from tests.plugins.kubernetes.test_store import Model
from tests.plugins.secondary.primary import Primary
from tests.plugins.transfer.test_transfer import receive
from tests.server import Server
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
OPTION_EXPIRE = 9
#: Wire form of the zone.
ZONE = b"\x07cluster\x05local\x00"
KINDS = sum(1 << kind for kind in (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE))

CENTRE = """
cluster.local:{port} in-addr.arpa:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    transfer cluster.local {
        to * PEER
    }
    kubernetes {
        manifests {dir}/objects.jsonl
        journal
    }
}
"""
REPLICA = """
cluster.local:{port} {
    bind 127.0.0.1
    secondary {
        transfer from FROM
    }
}
"""


# ---- what has changed ----


def digest(rows: set[Row]) -> bytes:
    """As transfer/_digest.pxd says it, and for long rdata _digest.pyx."""
    shown = ((owner, kind, ttl, rdata, rdata if len(rdata) <= 1024 else hashlib.sha256(rdata).digest()) for owner, kind, ttl, rdata in rows)
    texts = (owner.lower() + struct.pack(">HIH", kind, ttl, len(rdata)) + text for owner, kind, ttl, rdata, text in shown)
    return (sum(int.from_bytes(hashlib.sha256(text).digest(), "big") for text in texts) % 2**256).to_bytes(32, "big")


class Replica:
    """Who takes the first version whole, and of later ones the changes."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        found, transfer = changes.advance(whole=True)
        assert found is None
        self._take(transfer)

    @classmethod
    def of(cls, changes: Changes) -> Replica:
        """A replica that has the last version whole, which is checked with its digest."""
        replica = cls.__new__(cls)
        replica.changes = changes
        found, transfer = changes.advance(whole=True)
        assert found == ([], [])
        replica._take(transfer)
        assert digest_of(changes.zonemd[3]) == digest(replica.rows)
        return replica

    def _take(self, transfer: Transfer | None) -> None:
        assert transfer is not None
        self.rows: set[Row] = {row for row in transfer if row[1] not in (TYPE_SOA, TYPE_ZONEMD)}
        self.serial = self.changes.serial

    def follow(self) -> None:
        """Checks that the changes lead to what a whole transfer has."""
        found, _ = self.changes.advance()
        assert found is not None
        deleted, added = found
        assert set(deleted) <= self.rows
        assert not set(added) & self.rows
        self.rows = self.rows - set(deleted) | set(added)
        assert (0 < (self.changes.serial - self.serial) % 2**32 < 2**31) if deleted or added else self.changes.serial == self.serial
        self.serial = self.changes.serial
        again, transfer = self.changes.advance(whole=True)
        assert again == ([], [])
        assert transfer is not None
        rows = list(transfer)
        assert rows[0] == rows[-1] == self.changes.soa
        assert rows[1] == self.changes.zonemd
        assert self.rows == {row for row in rows if row[1] not in (TYPE_SOA, TYPE_ZONEMD)}
        assert len(rows) == len(self.rows) + 3 == self.changes.records + 3


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("options", [{}, {"namespaces": ["ns-1", "ns-2"]}, {"no_endpoints": True}, {"pod_names": True, "ttl": 60}])
def test_changes_lead_from_version_to_version(seed: int, options: dict[str, object]) -> None:
    """A replica that only has the first version and then the changes has the records of a whole transfer, whatever happens."""
    model, store = Model(seed), Store()
    model.fill(store)
    handler = Kubernetes("kubernetes", store, ["cluster.local."], "cluster.local.", kinds=KINDS, addresses=["172.0.0.1"], **options)  # type: ignore[arg-type]
    changes = Changes(handler, ZONE)
    replica = Replica(changes)
    for _ in range(40):
        for _ in range(model.random.randrange(6)):
            model.change(store, relist=0.1)
        replica.follow()
        assert digest_of(changes.zonemd[3]) == digest(replica.rows)
    changes.close()


def test_nothing_is_known_before_all_is_listed() -> None:
    store = Store()
    handler = Kubernetes("kubernetes", store, ["cluster.local."], "cluster.local.", kinds=KINDS)
    changes = Changes(handler, ZONE)
    assert not changes.known()
    for kind in (Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE):
        give_list(store, kind)
    assert changes.known()
    with pytest.raises(KeyError):
        Changes(handler, b"\x05other\x00")


# ---- who gets it ----


class Cluster:
    """Objects in a file that a server reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services: dict[str, Object] = {}
        self.slices: dict[str, Object] = {}

    def write(self) -> None:
        new = self.folder / ".objects"
        new.write_text(manifest((Kind.NAMESPACE, [namespace("ns")]), (Kind.SERVICE, self.services.values()), (Kind.SLICE, self.slices.values())))
        new.rename(self.folder / "objects.jsonl")

    def put(self, name: str, address: str) -> None:
        self.services[name] = service(f"ns/{name}", address)
        self.write()

    def remove(self, name: str) -> None:
        del self.services[name]
        self.write()


def some(folder: Path) -> None:
    cluster = Cluster(folder)
    for number in range(20):
        cluster.services[f"s{number}"] = service(f"ns/s{number}", f"10.0.0.{number}")
    cluster.services["db"] = service("ns/db", "None")
    cluster.slices["db-1"] = slice_of("ns/db-1", "db", "172.0.0.1;a", "172.0.0.2;b")
    cluster.write()


def cluster_of(server: Server) -> Cluster:
    some(server.folder)
    cluster = Cluster(server.folder)
    for number in range(20):
        cluster.services[f"s{number}"] = service(f"ns/s{number}", f"10.0.0.{number}")
    cluster.services["db"] = service("ns/db", "None")
    cluster.slices["db-1"] = slice_of("ns/db-1", "db", "172.0.0.1;a", "172.0.0.2;b")
    return cluster


def ask(server: Server, kind: str, serial: int | None = None, shown: bytes = b"") -> list[str]:
    """The records of one message, or its code."""
    query = dns.message.make_query("cluster.local.", kind)
    if serial is not None:
        query.authority.append(dns.rrset.from_text("cluster.local.", 0, "IN", "SOA", f". . {serial} 0 0 0 0"))
    if shown:
        query.use_edns(0, 0, 1232, options=[dns.edns.GenericOption(OPTION_ZONE_DIGEST, shown)])
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
        dns.query.send_tcp(sock, query)
        reply = dns.message.from_wire(receive(sock), one_rr_per_rrset=True)
    assert query.is_response(reply)
    return [rrset.to_text() for rrset in reply.answer] or [dns.rcode.to_text(reply.rcode())]


def version(server: Server) -> tuple[int, bytes]:
    """Serial and digest."""
    lines = ask(server, "AXFR")
    return int(lines[0].split()[6]), bytes.fromhex(lines[1].split()[-1])


def kinds(server: Server) -> dict[str, float]:
    sample = 'fastdns_transfer_transfers_total{{kind="{}",zone="cluster.local."}}'
    return {kind: server.metric(server.ports["port2"], sample.format(kind)) for kind in ("whole", "difference", "current")}


@pytest.fixture
def centre(serve: Serve) -> Server:
    return serve(CENTRE.replace(" PEER", ""), prepare=some)


def test_ixfr(centre: Server) -> None:
    cluster = cluster_of(centre)
    serial, content = version(centre)
    assert centre.query("cluster.local.", "SOA").answer[0][0].serial == serial
    cluster.put("new", "10.0.1.1")
    cluster.remove("s3")
    centre.until("new.ns.svc.cluster.local.", "A", ["10.0.1.1"])
    until(lambda: centre.query("cluster.local.", "SOA").answer[0][0].serial != serial)
    difference = ask(centre, "IXFR", serial, content)
    now = int(difference[0].split()[6])
    assert 0 < (now - serial) % 2**32 < 2**31
    places = [at for at, line in enumerate(difference) if " SOA " in line]
    assert [int(difference[at].split()[6]) for at in places] == [now, serial, now, now]
    deleted, added = difference[places[1] + 1 : places[2]], difference[places[2] + 1 : -1]
    assert deleted[0] == f"cluster.local. 5 IN ZONEMD {serial} 240 240 {content.hex()}"
    assert sorted(deleted[1:]) == [
        "_http._tcp.s3.ns.svc.cluster.local. 5 IN SRV 0 100 80 s3.ns.svc.cluster.local.",
        "s3.ns.svc.cluster.local. 5 IN A 10.0.0.3",
        "s3.ns.svc.cluster.local. 5 IN SRV 0 100 80 s3.ns.svc.cluster.local.",
    ]
    assert added[0].startswith(f"cluster.local. 5 IN ZONEMD {now} 240 240 ")
    assert "new.ns.svc.cluster.local. 5 IN A 10.0.1.1" in added
    fresh = bytes.fromhex(added[0].split()[-1])
    # Who has the last version; also under a later serial, of another server.
    assert ask(centre, "IXFR", now, fresh) == ask(centre, "IXFR", now + 77, fresh) == difference[:1]
    assert ask(centre, "IXFR", now) == difference[:1]
    # Records of the last version under a serial before it.
    assert [line.split()[3] for line in ask(centre, "IXFR", serial - 9, fresh)] == ["SOA", "SOA", "ZONEMD", "SOA", "ZONEMD", "SOA"]
    # Anybody else gets the whole zone.
    before = kinds(centre)
    for shown, old in ((b"", serial), (bytes(32), serial), (content, now + 77)):
        whole = ask(centre, "IXFR", old, shown)
        assert whole[0] == whole[-1] == difference[0]
        assert len(whole) > 60
    assert kinds(centre) == {**before, "whole": before["whole"] + 3}


def octets_of(server: Server, zone: str, kind: str, ident: int, serial: int | None = None, shown: bytes = b"") -> bytes:
    """One message, as it comes."""
    query = dns.message.make_query(zone, kind, id=ident)
    if serial is not None:
        query.authority.append(dns.rrset.from_text(zone, 0, "IN", "SOA", f". . {serial} 0 0 0 0"))
        query.use_edns(0, 0, 1232, options=[dns.edns.GenericOption(OPTION_ZONE_DIGEST, shown)])
    with socket.create_connection(("127.0.0.1", server.port), LIMIT) as sock:
        dns.query.send_tcp(sock, query)
        return receive(sock)


def test_who_asks_the_same_gets_the_same_octets(centre: Server) -> None:
    cluster = cluster_of(centre)
    serial, content = version(centre)
    first = octets_of(centre, "cluster.local.", "AXFR", 1)
    second = octets_of(centre, "CLUSTER.local.", "AXFR", 2)
    assert (first[:2], second[:2]) == (b"\0\x01", b"\0\x02")
    assert first[12:31].lower() == second[12:31].lower() != second[12:31]
    assert first[31:] == second[31:]
    assert dns.message.from_wire(second).answer[0].name.to_text() == "CLUSTER.local."  # the names point at the question
    whole = dns.message.from_wire(first, one_rr_per_rrset=True)
    owners = len(first) - 31 - sum(10 + len(rrset[0].to_digestable()) for rrset in whole.answer)
    assert owners < sum(len(rrset.name.to_wire()) for rrset in whole.answer) / 2
    cluster.put("new", "10.0.1.1")
    until(lambda: len(ask(centre, "IXFR", serial, content)) > 1)
    differences = [octets_of(centre, "cluster.local.", "IXFR", ident, serial, content) for ident in (3, 4)]
    assert differences[0][2:] == differences[1][2:]
    before = kinds(centre)
    replies = [octets_of(centre, "cluster.local.", "IXFR", ident, serial, content) for ident in range(100)]
    assert {reply[2:] for reply in replies} == {differences[0][2:]}
    assert kinds(centre)["difference"] == before["difference"] + 100
    assert octets_of(centre, "cluster.local.", "AXFR", 5)[31:] != first[31:]


def test_what_was_shared_ends_with_the_version(centre: Server) -> None:
    cluster = cluster_of(centre)
    serial, content = version(centre)
    for number in range(1, 20):
        cluster.put("new", f"10.0.1.{number}")
        wanted = f"new.ns.svc.cluster.local. 5 IN A 10.0.1.{number}"
        until(lambda wanted=wanted: wanted in ask(centre, "IXFR", serial, content))  # type: ignore[misc]
        assert wanted in ask(centre, "AXFR")
    difference = ask(centre, "IXFR", serial, content)
    assert [line for line in difference if line.startswith("new.") and " A " in line] == ["new.ns.svc.cluster.local. 5 IN A 10.0.1.19"]


def test_many_clients_get_a_zone_at_once(serve: Serve) -> None:
    """More than have places for records of their own, none of which reads; small messages reserve no large buffers."""
    server = serve(CENTRE.replace(" PEER", ""), prepare=some)
    version(server)
    query = dns.message.make_query("cluster.local.", "AXFR")
    with contextlib.ExitStack() as stack:
        clients = []
        for number in range(900):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT, (f"127.0.{number // 200}.{number % 200 + 1}", 0))))
            dns.query.send_tcp(clients[-1], query)
        replies = [receive(sock) for sock in clients]
        assert {(reply[3] & 15, reply[-1]) for reply in replies} == {(0, replies[0][-1])}
        for sock in clients:  # all connections are still there
            dns.query.send_tcp(sock, query)
        assert len([receive(sock) for sock in clients]) == 900


def test_what_comes_and_goes_again_is_no_difference(centre: Server) -> None:
    cluster = cluster_of(centre)
    serial, content = version(centre)
    last = content
    for address in ("10.0.1.1", "10.0.1.2"):
        cluster.put("new", address)
        centre.until("new.ns.svc.cluster.local.", "A", [address])
        # A version may come after the first answers.
        until(lambda last=last: version(centre)[1] not in (content, last))
        last = version(centre)[1]
    cluster.remove("new")
    centre.until("new.ns.svc.cluster.local.", "A", ["NXDOMAIN"])
    until(lambda: version(centre)[1] == content)
    assert [line.split()[3] for line in ask(centre, "IXFR", serial, content)] == ["SOA", "SOA", "ZONEMD", "SOA", "ZONEMD", "SOA"]


def test_a_transfer_waits_for_the_whole_cluster(serve: Serve) -> None:
    """A zone of which half is listed would take the other half from all who have it."""
    text = CENTRE.replace(" PEER", "").replace("manifests {dir}/objects.jsonl", "endpoint http://127.0.0.1:1\n startup_timeout 10ms")
    server = serve(text)
    assert ask(server, "AXFR") == ask(server, "IXFR", 1) == ["SERVFAIL"]


def test_a_reload_goes_on_with_the_versions(centre: Server) -> None:
    cluster = cluster_of(centre)
    serial, content = version(centre)
    cluster.put("new", "10.0.1.1")
    until(lambda: version(centre)[1] != content)
    now, fresh = version(centre)
    centre.reload(CENTRE.replace("PEER", "127.0.0.1:9"))
    until(lambda: ask(centre, "IXFR", serial, content) != ["SERVFAIL"])
    assert version(centre) == (now, fresh)
    difference = ask(centre, "IXFR", serial, content)
    assert [line.split()[3] for line in difference] == ["SOA", "SOA", "ZONEMD", "SOA", "ZONEMD", "A", "SRV", "SRV", "SOA"]
    # Other records: the versions lead nowhere.
    centre.reload(CENTRE.replace(" PEER", "").replace("journal", "journal\n ttl 77"))
    until(lambda: "77" in ask(centre, "AXFR")[0].split())
    assert len(ask(centre, "IXFR", serial, content)) > 60


#: Holds the threads that prepare transfers.
HOLDER = """
import os, time
from fastdns.plugin import Log, Plugin
class Zones(Plugin):
    zones = ("nothing.asked.",)
    def transfer_size(self, zone, serial):
        return 1
    def transfer(self, zone, serial):
        Log("plugin/holder").info("holds")
        while not os.path.exists("go"):
            time.sleep(0.01)
        return None
def setup(controller):
    controller.next()
    return Zones()
"""
HELD = """
test:{port} {
    bind 127.0.0.1
    transfer {
        to *
    }
    plugin {dir}/holder.py
}
"""


def test_transfers_that_wait_for_a_thread_outlive_a_reload(serve: Serve) -> None:
    def prepare(folder: Path) -> None:
        some(folder)
        (folder / "holder.py").write_text(HOLDER)

    server = serve(CENTRE.replace(" PEER", "") + HELD, prepare=prepare)
    _, content = version(server)
    with contextlib.ExitStack() as stack:

        def send(zone: str) -> socket.socket:
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT))
            dns.query.send_tcp(sock, dns.message.make_query(zone, "AXFR"))
            return sock

        for _ in range(8):
            send("test.")
        until(lambda: server.log().count("plugin/holder: holds") >= 2, "threads that are held")
        waiting = [send("cluster.local.") for _ in range(2)]
        for sock in waiting:
            dns.query.send_tcp(sock, dns.message.make_query("cluster.local.", "SOA"))
            assert dns.message.from_wire(receive(sock)).question[0].rdtype == dns.rdatatype.SOA, "what is sent after the transfer is answered"
        server.reload(".:{port} {\n bind 127.0.0.1\n whoami\n}\n")
        (server.folder / "go").touch()
        for sock in waiting:
            reply = dns.message.from_wire(receive(sock), one_rr_per_rrset=True)
            assert reply.rcode() == 0
            assert bytes.fromhex(reply.answer[1].to_text().split()[-1]) == content


def test_a_secondary_follows(serve: Serve, centre: Server) -> None:
    cluster = cluster_of(centre)
    replica = serve(REPLICA.replace("FROM", f"127.0.0.1:{centre.port}"))
    replica.until("s3.ns.svc.cluster.local.", "A", ["10.0.0.3"])
    centre.reload(CENTRE.replace("PEER", f"127.0.0.1:{replica.port}"))
    before = kinds(centre)
    for number in range(5):
        cluster.put("new", f"10.0.1.{number}")
        replica.until("new.ns.svc.cluster.local.", "A", [f"10.0.1.{number}"])
    cluster.slices["db-1"] = slice_of("ns/db-1", "db", "172.0.0.2;b", "172.0.0.3;c")
    cluster.write()
    replica.until("db.ns.svc.cluster.local.", "A", ["172.0.0.2", "172.0.0.3"])
    assert replica.answers("a.db.ns.svc.cluster.local.") == ["NXDOMAIN"]
    cluster.remove("new")
    replica.until("new.ns.svc.cluster.local.", "A", ["NXDOMAIN"])
    after = kinds(centre)
    assert after["difference"] >= before["difference"] + 6
    assert version(centre)[1] == version_of(replica)[1]


def version_of(replica: Server) -> tuple[int, bytes]:
    reply = replica.query("cluster.local.", "ZONEMD").answer[0][0]
    return reply.serial, reply.digest


def test_a_secondary_takes_what_another_server_has(serve: Serve) -> None:
    """Two servers whose watches are not equally far: a secondary that loses one goes on with the other's records, also where their serial is older."""
    centres = [serve(CENTRE.replace(" PEER", ""), prepare=some) for _ in range(2)]
    clusters = [cluster_of(server) for server in centres]
    replica = serve(REPLICA.replace("FROM", " ".join(f"127.0.0.1:{server.port}" for server in centres)))
    clusters[1].put("ahead", "10.0.2.1")
    centres[1].until("ahead.ns.svc.cluster.local.", "A", ["10.0.2.1"])
    until(lambda: version(centres[1])[1] != version(centres[0])[1])
    clusters[0].put("both", "10.0.2.2")
    centres[0].until("both.ns.svc.cluster.local.", "A", ["10.0.2.2"])
    for server in centres:
        server.reload(CENTRE.replace("PEER", f"127.0.0.1:{replica.port}"))
    replica.until("both.ns.svc.cluster.local.", "A", ["10.0.2.2"])
    assert version_of(replica)[0] > version(centres[1])[0]
    centres[0].stop()
    notify(replica)
    replica.until("ahead.ns.svc.cluster.local.", "A", ["10.0.2.1"])
    assert replica.answers("both.ns.svc.cluster.local.") == ["NXDOMAIN"]
    assert version_of(replica) == version(centres[1])


def test_no_zone_moves_where_two_servers_have_the_same(serve: Serve) -> None:
    centres = [serve(CENTRE.replace(" PEER", ""), prepare=some) for _ in range(2)]
    replica = serve(REPLICA.replace("FROM", " ".join(f"127.0.0.1:{server.port}" for server in centres)))
    replica.until("s3.ns.svc.cluster.local.", "A", ["10.0.0.3"])
    assert version(centres[0])[1] == version(centres[1])[1]
    before = kinds(centres[1])
    centres[0].stop()
    notify(replica)
    until(lambda: sum(kinds(centres[1]).values()) > sum(before.values()))
    assert kinds(centres[1])["whole"] == before["whole"]
    assert replica.answers("s3.ns.svc.cluster.local.") == ["10.0.0.3"]


def notify(replica: Server) -> None:
    request = dns.message.make_query("cluster.local.", "SOA", flags=dns.flags.AA)
    request.set_opcode(dns.opcode.NOTIFY)
    assert dns.query.udp(request, "127.0.0.1", port=replica.port, timeout=LIMIT).rcode() == dns.rcode.NOERROR


ROWS = {
    (b"\x07example\x03org\x00", 2, 60, b"\x02ns\x07example\x03org\x00"),
    (b"\x02ns\x07example\x03org\x00", 1, 60, bytes((192, 0, 2, 1))),
    (b"\x03www\x07example\x03org\x00", 1, 60, bytes((192, 0, 2, 2))),
}
VERSION = """
@ 60 IN SOA ns hostmaster {serial} 3600 600 86400 60
@ 60 IN ZONEMD {serial} 240 240 {digest}
@ 60 IN NS ns
ns 60 IN A 192.0.2.1
www 60 IN A 192.0.2.2
"""


def test_records_that_the_digest_is_not_of_are_refused(serve: Serve) -> None:
    primary = Primary(VERSION.format(serial=1, digest=digest(ROWS).hex()))
    try:
        server = serve(f"example.org:{{port}} {{\n bind 127.0.0.1\n secondary {{\n transfer from {primary.address}\n }}\n}}\n")
        server.until("www.example.org.", "A", ["192.0.2.2"])
        primary.add(VERSION.format(serial=2, digest=digest(ROWS).hex()).replace("192.0.2.2", "192.0.2.3"))
        start = len(server.log())
        primary.notify(server.port)
        server.wait_log("Failed to transfer .*the records are not those that the zone's digest is of", start=start)
        assert server.answers("www.example.org.") == ["192.0.2.2"]
        fixed = {(owner, kind, ttl, rdata if rdata[-1] != 2 else bytes((192, 0, 2, 3))) for owner, kind, ttl, rdata in ROWS}
        primary.add(VERSION.format(serial=3, digest=digest(fixed).hex()).replace("192.0.2.2", "192.0.2.3"))
        primary.notify(server.port)
        server.until("www.example.org.", "A", ["192.0.2.3"])
    finally:
        primary.close()


# ---- how old it is ----


def expire(server: Server) -> int:
    reply = server.query("cluster.local.", "SOA", use_edns=0, options=[dns.edns.GenericOption(OPTION_EXPIRE, b"")])
    return next(int.from_bytes(option.to_wire() or b"", "big") for option in reply.options if option.otype == OPTION_EXPIRE)


WATCHED = """
cluster.local:{{port}} {{
    transfer {{
        to *
    }}
    kubernetes {{
        endpoint {url}
        startup_timeout {seconds}s
    }}
}}
"""


@pytest.mark.parametrize("rights", [None, ["ns/services", "ns/endpointslices"]])
def test_the_zone_ages_while_the_api_server_is_away(serve: Serve, fakekube: Callable[..., KubeAPI], rights: list[str] | None) -> None:
    """A secondary hears of it, although the server itself answers."""
    api = fakekube(["ns ns", "svc ns/web 10.0.0.1"])
    if rights is not None:
        api.grant(*rights)
    text = WATCHED.format(url=api.url, seconds=5)
    centre = serve(text if rights is None else text.replace("endpoint", "namespaces ns\n        endpoint"))
    centre.until("web.ns.svc.cluster.local.", "A", ["10.0.0.1"])
    until(lambda: expire(centre) == 86400, "all is listed")
    replica = serve(REPLICA.replace("FROM", f"127.0.0.1:{centre.port}\n        stale serve 2s"))
    replica.until("web.ns.svc.cluster.local.", "A", ["10.0.0.1"])
    assert not replica.query("web.ns.svc.cluster.local.", use_edns=0).options
    api.set_down("close")
    until(lambda: expire(centre) <= 86397, "an older cluster")
    until(lambda: [option.otype for option in replica.query("web.ns.svc.cluster.local.", use_edns=0).options] == [15], "a stale zone")
    api.set_down(False)
    until(lambda: expire(centre) == 86400, "watches again")
    until(lambda: not replica.query("web.ns.svc.cluster.local.", use_edns=0).options, "a zone that is confirmed")


def test_a_cluster_that_was_never_listed_is_as_old_as_can_be(serve: Serve, fakekube: Callable[..., KubeAPI]) -> None:
    api = fakekube([])
    api.set_down(True)
    centre = serve(WATCHED.format(url=api.url, seconds=0))
    assert expire(centre) == 0
    api.set_down(False)
    until(lambda: expire(centre) == 86400, "all is listed")
