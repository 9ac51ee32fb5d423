"""Size, OPT and DO of a reply are those that the client's message asks for at most, whatever the chain makes of the query (RFC 6891, RFC 3225)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import dns.tsig
import pytest

from fastdns.plugins.kubernetes.watch.resources import Kind
from fastdns.testing import Upstream
from tests import dnskeys
from tests.certificates import write_certificates
from tests.plugins.kubernetes.objects import manifest, namespace, service, slice_of
from tests.server import Server
from tests.server.test_edns import TRANSPORTS, over

#: Records of the large answers: 3,903 octets with their question.
COUNT = 240
ADDRESSES = [f"10.0.{i >> 8}.{i & 255}" for i in range(COUNT)]
SECRET = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
RECORDS = "file {dir}/db"

PLUGIN = """
from fastdns.plugin import Plugin
from fastdns.query import Record

OPT = Record(41, bytes.fromhex("000f00020012"), 0x01008000, bytes(1))

class Large(Plugin):
    def serve(self, query):
        if query.name.startswith("r."):
            return query.reply(*(f"A 10.0.{i >> 8}.{i & 255}" for i in range(240)), ede=15)
        return query.reply(rcode=23, additional=[OPT])

def setup(controller):
    return Large()
"""

REWRITES = {
    f"rewrite-{kind.split()[0]}-{action}{'-revert' * bool(revert)}": f"rewrite edns0 {kind.format(action)} {revert}"
    for kind in ("local {} 0xffee hello", "nsid {}", "subnet {} 24 56", "local {} 0xffed {{client_ip}}")
    for action in ("set", "append", "replace")
    for revert in ("", "revert")
    if "local" not in kind or "ffee" in kind or action == "set"
}

#: Blocks by zone: a large answer stands at r.ZONE.
BLOCKS = {
    "plain": RECORDS,
    **{name: f"{rule}\n {RECORDS}" for name, rule in REWRITES.items()},
    "bufsize": f"bufsize 1024\n rewrite edns0 local set 0xffee hello\n {RECORDS}",
    "nsid": f"nsid us\n {RECORDS}",
    "nsid-set": f"nsid us\n rewrite edns0 nsid set\n {RECORDS}",
    "cookies": f"cookies\n rewrite edns0 local set 10 0x0102030405060708\n {RECORDS}",
    "header": f"rewrite edns0 local set 0xffee hello\n header {{\n  response set ra\n }}\n {RECORDS}",
    "minimal": f"rewrite edns0 local set 0xffee hello\n minimal\n {RECORDS}",
    "dnssec": f"rewrite edns0 local set 0xffee hello\n dnssec {{\n  key file {{dir}}/Kdnssec.test\n }}\n {RECORDS}",
    "dns64": f"rewrite edns0 local set 0xffee hello\n dns64\n {RECORDS}",
    "autopath": f"rewrite edns0 local set 0xffee hello\n autopath {{dir}}/resolv.conf\n {RECORDS}",
    "loadbalance": f"loadbalance\n rewrite edns0 local set 0xffee hello\n {RECORDS}",
    "tsig": f"tsig {{\n  secret key. {SECRET}\n }}\n rewrite edns0 local set 0xffee hello\n {RECORDS}",
    "acl": "rewrite edns0 local set 0xffee hello\n acl {\n  block net *\n }\n whoami",
    "acl-plain": "acl {\n  filter net *\n }\n whoami",
    "template": "rewrite edns0 local set 0xffee hello\n template IN A {\n"
    + "".join(f'  answer "{{{{ .Name }}}} 60 IN A {address}"\n' for address in ADDRESSES)
    + '  ederror 21 "not here"\n }',
    "template-plain": 'template IN A {\n  answer "{{ .Name }} 60 IN A 192.0.2.1"\n  ederror 21 "not here"\n }',
    "forward": "rewrite edns0 local set 0xffee hello\n forward . UPSTREAM",
    "forward-tcp": "rewrite edns0 local set 0xffee hello\n forward . UPSTREAM {\n  force_tcp\n }",
    "forward-plain": "forward . UPSTREAM {\n  force_tcp\n }",
    "cache": "rewrite edns0 local set 0xffee hello\n cache\n forward . UPSTREAM {\n  force_tcp\n }",
    "cache-plain": "cache\n forward . UPSTREAM {\n  force_tcp\n }",
    "grpc": "rewrite edns0 local set 0xffee hello\n grpc . 127.0.0.1:{port7}",
    "python": "rewrite edns0 local set 0xffee hello\n plugin {dir}/large.py",
    "python-plain": "plugin {dir}/large.py",
    "kubernetes": "rewrite edns0 local set 0xffee hello\n kubernetes kubernetes.test {\n  manifests {dir}/cluster.jsonl\n }",
    "k8s-external": "rewrite edns0 local set 0xffee hello\n kubernetes cluster.local {\n  manifests {dir}/cluster.jsonl\n }\n k8s_external k8s-external.test",
}
#: Where the large answer is, if not at r.ZONE.
NAMES = {"kubernetes": "large.shop.svc.kubernetes.test.", "k8s-external": "large.shop.k8s-external.test."}
#: Answers of one record or none: of them OPT and DO are looked at.
SMALL = {"acl", "acl-plain", "template-plain"}

#: What a client's OPT says: its size, and whether it has DO. None: there is no OPT.
CLIENTS = [None, (100, False), (700, False), (1232, True), (4096, True)]


def answer(query: dns.message.Message) -> dns.message.Message:
    """Everything, with an OPT of its own, to whoever asks; at x.ZONE BADCOOKIE."""
    made = dns.message.make_response(query)
    made.use_edns(0, dns.flags.DO, 4096, options=[dns.edns.EDEOption(3)])
    name = query.question[0].name
    if name.labels[0] == b"r":
        made.answer.append(dns.rrset.from_text(name, 60, "IN", "A", *ADDRESSES))
    else:
        made.set_rcode(dns.rcode.BADCOOKIE)
    return made


def prepare(folder: Path) -> None:
    write_certificates(folder, "example.org")
    zone = "@ 3600 IN SOA ns admin 1 3600 600 86400 60\n@ IN NS ns\n" + "".join(f"r 60 IN A {address}\n" for address in ADDRESSES)
    (folder / "db").write_text(zone)
    (folder / "resolv.conf").write_text("search autopath.test test\n")
    (folder / "large.py").write_text(PLUGIN)
    dnskeys.make_key(folder, "dnssec.test.", name="Kdnssec.test")
    large = service("shop/large", "10.0.0.1", externalIPs=ADDRESSES)
    large["spec"]["clusterIP"], large["spec"]["clusterIPs"] = "None", ["None"]
    slices = [slice_of(f"shop/large-{i}", "large", *ADDRESSES[i : i + 80]) for i in range(0, COUNT, 80)]
    (folder / "cluster.jsonl").write_text(manifest((Kind.NAMESPACE, [namespace("shop")]), (Kind.SERVICE, [large]), (Kind.SLICE, slices)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with all blocks on all transports."""
    folder = tmp_path_factory.mktemp("limits")
    prepare(folder)
    with Upstream(answer) as upstream:
        text = f"grpc://.:{{port7}} {{\n bind 127.0.0.1\n forward . {upstream.address} {{\n  force_tcp\n }}\n}}\n"
        for name, block in BLOCKS.items():
            keys = " ".join(f"{scheme}://{name}.test:{{{port}}}" for scheme, port in TRANSPORTS.items())
            text += f"{keys} {{\n bind 127.0.0.1\n tls {{dir}}/server.pem {{dir}}/server.key\n {block.replace('UPSTREAM', upstream.address)}\n}}\n"
        with Server(folder, text) as running:
            running.wait_started()
            yield running


def question(name: str, client: tuple[int, bool] | None) -> dns.message.Message:
    query = dns.message.make_query(name, "A", id=0)
    if client is not None:
        query.use_edns(0, dns.flags.DO if client[1] else 0, client[0])
    return query


def check(octets: bytes, client: tuple[int, bool] | None, datagram: bool) -> dns.message.Message:
    reply = dns.message.from_wire(octets)
    assert (reply.edns == 0) == (client is not None), "an OPT for who sent one, and for nobody else"
    if datagram:
        assert len(octets) <= max(512, client[0] if client else 0)
    if client is not None:
        assert reply.payload <= client[0]
        assert bool(reply.ednsflags & dns.flags.DO) == client[1]
    return reply


@pytest.mark.parametrize("scheme", ["udp", "tcp", *list(TRANSPORTS)[1:]])
@pytest.mark.parametrize("block", BLOCKS)
def test_what_the_client_asked_for(server: Server, block: str, scheme: str) -> None:
    """Clients with EDNS first: what a cache keeps of theirs is cut for others. DNS over QUIC and HTTP/3 have the limit of UDP, as in CoreDNS."""
    datagram = scheme in ("udp", "quic", "https3")
    for client in reversed(CLIENTS) if scheme in ("udp", "tcp") else (CLIENTS[3], None):
        octets = over(server, scheme, question(NAMES.get(block, f"r.{block}.test."), client).to_wire())
        assert octets is not None
        reply = check(octets, client, datagram)
        limit = max(512, client[0] if client else 0)
        if block == "bufsize":
            limit = min(limit, 1024)
            assert reply.payload <= 1024
        if block not in SMALL:
            assert reply.rcode() == dns.rcode.NOERROR
            whole = sum(len(rrset) for rrset in reply.answer if rrset.rdtype == 1) == COUNT
            assert whole or reply.flags & dns.flags.TC
            assert whole or datagram
            assert not datagram or len(octets) <= limit


@pytest.mark.parametrize("block", ["forward", "forward-plain", "cache", "grpc", "python", "python-plain"])
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
def test_extended_rcodes_are_for_clients_with_edns(server: Server, block: str, scheme: str) -> None:
    """BADCOOKIE is 23: its lower bits alone would say YXRRSET."""
    for client in (CLIENTS[-1], None):
        octets = over(server, scheme, question(f"x.{block}.test.", client).to_wire())
        assert octets is not None
        assert check(octets, client, scheme == "udp").rcode() == (dns.rcode.SERVFAIL if client is None else dns.rcode.BADCOOKIE)


@pytest.mark.parametrize("client", [None, (100, False), (1232, True), (4096, False)])
def test_signed_replies(server: Server, client: tuple[int, bool] | None) -> None:
    """RFC 8945 5.3: whole over TCP; over UDP whole where it fits, else truncated to the question, and signed in any case."""
    keyring = dns.tsig.Key("key.", SECRET, "hmac-sha256")
    for scheme in ("udp", "tcp"):
        query = question("r.tsig.test.", client)
        query.use_tsig(keyring)
        octets = over(server, scheme, query.to_wire())
        assert octets is not None
        reply = dns.message.from_wire(octets, keyring=keyring, request_mac=query.mac)
        assert (reply.edns == 0) == (client is not None)
        assert reply.had_tsig
        whole = scheme == "tcp" or client == (4096, False)
        assert (sum(map(len, reply.answer)), bool(reply.flags & dns.flags.TC)) == ((COUNT, False) if whole else (0, True))
        assert scheme == "tcp" or len(octets) <= max(512, client[0] if client else 0)


def test_what_an_upstream_is_asked_is_the_rules(server: Server) -> None:
    """The limit of the client's reply is none of the upstream's: the question that a rule gave an OPT has one."""
    with Upstream(answer) as upstream:
        folder = server.folder / "asked"
        folder.mkdir()
        with Server(folder, f".:{{port}} {{\n bind 127.0.0.1\n rewrite edns0 local set 0xffee hello\n forward . {upstream.address}\n}}\n") as running:
            running.wait_started()
            octets = over(running, "udp", question("r.asked.test.", None).to_wire())
        assert octets is not None
        check(octets, None, True)
        assert {(query.edns, query.payload, len(query.options)) for query in upstream.seen} == {(0, 1232, 1)}
