"""rrl through a socket: what is dropped, what slips, and who is not limited."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest
import yaml

from tests.programs import program
from tests.server import Server
from tests.validators import run
from tests.waiting import until

#: Allowance of one token, whose successor takes 1000 seconds: what passes does not depend on the test's speed.
ONE = "0.001"

COOKIE = dns.edns.OptionType.COOKIE
CLIENT = b"clientof"

ZONE = """$ORIGIN example.org.
@ 3600 SOA ns hostmaster 1 7200 3600 1209600 3600
@ NS ns
ns A 192.0.2.1
www A 192.0.2.2
mail A 192.0.2.3
*.wild A 192.0.2.4
child NS ns.child
ns.child A 192.0.2.5
"""

COREFILE = """
example.org:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port9}
    rrl {
        RULES
    }
    file {dir}/zone
}
"""


@pytest.fixture
def start(serve, tmp_path: Path) -> Callable[..., Server]:
    def begin(*rules: str, corefile: str = COREFILE) -> Server:
        (tmp_path / "zone").write_text(ZONE)
        return serve(corefile.replace("RULES", "\n        ".join(rules)).replace("{dir}", str(tmp_path)))

    return begin


def replies(server: Server, names: list[str], source: str = "127.0.0.1", rdtype: str = "A", sockets: int = 1) -> list[dns.message.Message]:
    """Asks all at once and takes what comes until half a second is silent."""
    some = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(sockets)]
    found = []
    try:
        for one in some:
            one.bind((source, 0))
            one.settimeout(0.5 / sockets)
        for place, name in enumerate(names):
            some[place % sockets].sendto(dns.message.make_query(name, rdtype).to_wire(), ("127.0.0.1", server.port))
        for one in some:
            while True:
                try:
                    found.append(dns.message.from_wire(one.recv(4096), ignore_trailing=False))
                except TimeoutError:
                    break
    finally:
        for one in some:
            one.close()
    return found


@pytest.mark.parametrize(
    ("rule", "kind", "names", "rdtype"),
    [
        ("responses-per-second", "response", ["www.example.org."] * 10, "A"),
        ("responses-per-second", "response", [f"x{i}.wild.example.org." for i in range(10)], "A"),
        ("nodata-per-second", "nodata", ["www.example.org."] * 10, "TXT"),
        ("nxdomains-per-second", "nxdomain", [f"x{i}.Example.ORG." for i in range(10)], "A"),
        ("referrals-per-second", "referral", [f"x{i}.child.example.org." for i in range(10)], "A"),
    ],
)
def test_kinds(start, rule: str, kind: str, names: list[str], rdtype: str) -> None:
    server = start(f"{rule} {ONE}")
    assert len(replies(server, names, rdtype=rdtype)) == 1
    assert server.metric(server.ports["port9"], f'fastdns_rrl_exceeded_total{{action="drop",kind="{kind}",server="dns://127.0.0.1:{server.port}"}}') == 9
    assert server.metric(server.ports["port9"], 'coredns_rrl_responses_exceeded_total{client_ip="127.0.0.1"}') == 9
    # What is of another kind, or asked over TCP, is not limited.
    assert len(server.query("www.example.org.", rdtype, tcp=True).question) == 1
    assert len(replies(server, ["mail.example.org."], rdtype="MX" if kind == "nodata" else "A")) == 1


def test_errors_whatever_they_are_about(start) -> None:
    corefile = """
    .:{port} {
        bind 127.0.0.1
        rrl {
            RULES
        }
        acl a.test {
            block
        }
    }
    """
    server = start(f"errors-per-second {ONE}", "slip-ratio 3", corefile=corefile)
    got = replies(server, [f"x{i}.a.test." for i in range(5)] + [f"x{i}.b.test." for i in range(5)])
    # Which of them pass is not certain: workers share the account.
    assert sorted(bool(reply.flags & dns.flags.TC) for reply in got) == [False, True, True, True]
    assert {dns.rcode.to_text(reply.rcode()) for reply in got} <= {"REFUSED", "SERVFAIL"}


def test_names_and_types_have_accounts_of_their_own(start) -> None:
    server = start(f"responses-per-second {ONE}")
    assert len(replies(server, ["www.example.org.", "mail.example.org.", "WWW.example.org.", "ns.example.org."])) == 3
    assert len(replies(server, ["www.example.org."], rdtype="ANY")) == 1


def test_networks(start) -> None:
    server = start(f"responses-per-second {ONE}", "ipv4-prefix-length 23")
    assert [len(replies(server, ["www.example.org."], source)) for source in ("127.0.2.1", "127.0.2.2", "127.0.3.1", "127.0.4.1")] == [1, 0, 0, 1]


def test_slip_and_the_client_that_asks_over_tcp(start) -> None:
    server = start(f"responses-per-second {ONE}", "slip-ratio 2")
    got = sorted(replies(server, ["www.example.org."] * 9), key=lambda reply: reply.flags & dns.flags.TC)
    assert [bool(reply.flags & dns.flags.TC) for reply in got] == [False, True, True, True, True]
    assert all(not (reply.answer or reply.authority or reply.additional) for reply in got[1:])
    assert all(reply.flags & dns.flags.AA for reply in got)
    dig = program("dig")
    words = [dig, "@127.0.0.1", "-p", str(server.port), "+tries=3", "+timeout=1", "+short", "www.example.org"]
    for _ in range(2):  # the first datagram is dropped, the second one slips
        assert run(*words).strip().splitlines()[-1] == "192.0.2.2"


def test_requests_on_every_transport(start) -> None:
    """One account for datagrams, one for what proves the address."""
    server = start(f"requests-per-second {ONE}", "slip-ratio 1")
    assert len(replies(server, ["www.example.org.", "mail.example.org.", "x.example.org."])) == 1
    assert server.query("www.example.org.", tcp=True).answer
    with pytest.raises((EOFError, TimeoutError, dns.exception.Timeout)):
        server.query("www.example.org.", tcp=True, timeout=0.5)
    metrics = server.get(server.ports["port9"], "/metrics")
    assert 'coredns_rrl_requests_exceeded_total{client_ip="127.0.0.1"} 3' in metrics
    assert f'fastdns_rrl_exceeded_total{{action="drop",kind="request",server="dns://127.0.0.1:{server.port}"}} 3' in metrics
    assert "coredns_rrl_responses_exceeded_total" not in metrics


def cookie_of(server: Server, source: str) -> bytes:
    """Both halves of a cookie of the client."""
    reply = server.query("www.example.org.", use_edns=0, options=[dns.edns.GenericOption(COOKIE, CLIENT)], source=source)
    return next(option.to_wire() for option in reply.options if option.otype == COOKIE)


def ask(server: Server, source: str, cookie: bytes = b"", tcp: bool = False) -> bool:
    """Asks once; true if there is an answer."""
    options = [dns.edns.GenericOption(COOKIE, cookie)] if cookie else []
    try:
        return bool(server.query("www.example.org.", use_edns=0, options=options, source=source, tcp=tcp, timeout=0.5).answer)
    except (EOFError, OSError, dns.exception.DNSException):
        return False


@pytest.mark.parametrize("by", ["network", "pod", "namespace"])
def test_forged_datagrams_take_no_request_that_proves_its_address(start, tmp_path: Path, by: str) -> None:
    """Datagrams in clients' names, also with a cookie of another client or a wrong one: TCP and valid cookies have an allowance of their own."""
    rules = [f"requests-per-second {ONE}", "ipv4-prefix-length 32"]
    corefile = COREFILE.replace("    file", "    cookies\n    file")
    victims = ["127.0.0.5", "127.0.0.6"]
    if by != "network":
        rules.append(f"by {by}")
        pods = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": f"n{address[-1]}"}, "status": {"podIP": address, "phase": "Running"}}
            for address in victims
        ]
        (tmp_path / "pods.yaml").write_text(yaml.safe_dump_all(pods))
        corefile = corefile.replace("    file", "    kubernetes cluster.local {\n        manifests {dir}/pods.yaml\n        pods verified\n    }\n    file")
    server = start(*rules, corefile=corefile)
    cookies = [cookie_of(server, victim) for victim in victims]
    for victim, cookie, stolen in zip(victims, cookies, reversed(cookies), strict=True):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
            forger.bind((victim, 0))
            for wrong in (b"", stolen, cookie[:-1] + bytes([cookie[-1] ^ 1]), CLIENT) * 5:
                options = [dns.edns.GenericOption(COOKIE, wrong)] if wrong else []
                forger.sendto(dns.message.make_query("www.example.org.", "A", use_edns=0, options=options).to_wire(), ("127.0.0.1", server.port))
    dropped = f'fastdns_rrl_exceeded_total{{action="drop",kind="request",server="dns://127.0.0.1:{server.port}"}}'
    until(lambda: server.metric(server.ports["port9"], dropped) == 40, "the forged datagrams")
    assert [ask(server, victim) for victim in victims] == [False, False]
    # The allowance is one request: both ways of proving the address have one account.
    assert ask(server, victims[0], cookies[0])
    assert ask(server, victims[1], tcp=True)
    assert not ask(server, victims[0], tcp=True)
    assert not ask(server, victims[1], cookies[1])


def test_zones(start) -> None:
    server = start(f"responses-per-second {ONE}", corefile=COREFILE.replace("rrl {", "rrl wild.example.org {"))
    assert len(replies(server, ["www.example.org."] * 5)) == 5
    assert len(replies(server, ["a.wild.example.org."] * 5)) == 1


def test_report_only(start) -> None:
    server = start(f"responses-per-second {ONE}", f"requests-per-second {ONE}", "report-only")
    assert len(replies(server, ["www.example.org."] * 5)) == 5
    for kind in ("request", "response"):
        assert server.metric(server.ports["port9"], f'fastdns_rrl_exceeded_total{{action="report",kind="{kind}",server="dns://127.0.0.1:{server.port}"}}') == 4


def test_workers_do_not_multiply_the_rate(start) -> None:
    """Forty sockets, whose datagrams the kernel spreads over the workers."""
    server = start("responses-per-second 5", "window 15")
    assert len(replies(server, ["www.example.org."] * 400, sockets=40)) <= 10


def test_series_of_clients_are_bounded(start) -> None:
    server = start(f"requests-per-second {ONE}", "ipv4-prefix-length 32")
    for host in range(1, 201):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.bind((f"127.0.1.{host}", 0))
            for _ in range(3):
                one.sendto(dns.message.make_query("www.example.org.", "A").to_wire(), ("127.0.0.1", server.port))
    replies(server, ["www.example.org."])
    lines = [line for line in server.get(server.ports["port9"], "/metrics").splitlines() if line.startswith("coredns_rrl_requests_exceeded_total{")]
    assert sum(float(line.rpartition(" ")[2]) for line in lines) == 400
    assert any('client_ip="other"' in line for line in lines)
    assert len(lines) <= 32 * len(os.sched_getaffinity(0)) + 1
