"""What a run's page is made from: Ginkgo's JUnit files, and dnsperf's counts."""

from __future__ import annotations

import io

import dns.message
import dns.rrset
import pytest

from tests.cluster import e2e
from tests.cluster.churn import addresses_of
from tests.cluster.e2e import Spec
from tests.cluster.page import Page
from tests.cluster.rolling import Loss, addresses, counted
from tests.cluster.scene import Outcome
from tests.cluster.simulated import told

JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="7400" failures="2" time="220">
 <testsuite name="Kubernetes e2e suite" tests="7400" failures="2">
  <testcase name="[SynchronizedBeforeSuite]" status="passed" time="0.1"></testcase>
  <testcase name="[It] [sig-network] DNS should provide DNS for services" status="passed" time="12.5"></testcase>
  <testcase name="[It] [sig-network] DNS should support configurable pod resolv.conf" status="failed" time="3">
   <failure message="timed out" type="failed">[FAILED] timed out</failure>
  </testcase>
  <testcase name="[It] [sig-apps] DisruptionController" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
  <testcase name="[SynchronizedAfterSuite]" status="panicked" time="0"><error message="panicked" type="panicked"></error></testcase>
 </testsuite>
</testsuites>
"""

DNSPERF = """Statistics:

  Queries sent:         3000
  Queries completed:    2985 (99.50%)
  Queries lost:         5 (0.17%)
  Queries interrupted:  10 (0.33%)
"""


def test_specs_of_a_junit_file() -> None:
    assert e2e.read(JUNIT) == [
        Spec("[sig-network] DNS should provide DNS for services", "passed", 12.5),
        Spec("[sig-network] DNS should support configurable pod resolv.conf", "failed", 3.0, "timed out"),
        Spec("[SynchronizedAfterSuite]", "failed", 0.0, "panicked"),
    ]


def test_queries_under_way_at_the_end_are_not_lost() -> None:
    assert counted(DNSPERF, 7.0) == Loss(3000, 5, 7.0)
    with pytest.raises(RuntimeError, match="Queries sent"):
        counted("Error: no such file", 0)


def test_a_server_that_is_away_gives_no_address() -> None:
    assert addresses(";; communications error to 10.96.0.10#53: connection refused\n;; no servers could be reached\n") == ""
    assert addresses("10.96.0.1\n10.96.0.2\n") == "10.96.0.1\n10.96.0.2"


def test_page() -> None:
    page = Page(["fastdns", "coredns"], 3, "nftables")
    page.add_specs("DNS", "fastdns", e2e.read(JUNIT), 220)
    page.add_loss("rolling update", "coredns", Loss(3000, 5, 7.0))
    page.seconds["images"] = 12.3
    text = page.text()
    assert "| e2e: DNS | 1 of 3 passed in 220 s |  |" in text
    assert "| rolling update: queries lost at 300/s over 40 sockets |  | 5 of 3000, 0.17 % |" in text
    assert "| images | 12 |" in text
    assert "| [sig-network] DNS should provide DNS for services | passed, 12 s |  |" in text
    assert "- fastdns: [sig-network] DNS should support configurable pod resolv.conf: timed out\n" in text
    assert text.splitlines()[0].endswith(", 3 nodes, kube-proxy in nftables mode")
    assert "node" not in Page(["fastdns"], 0, "nftables").text().splitlines()[0]


def test_page_of_faults() -> None:
    page = Page(["fastdns", "coredns"], 3, "nftables")
    page.add_fault("a node lost", "fastdns", Outcome(Loss(3000, 5, 7.0), "back after 3 s"))
    page.add_fault("a node lost", "coredns", RuntimeError("no DNS pod"))
    text = page.text()
    assert "| a node lost | 5 of 3000, 0.17 %, in 7 s; back after 3 s | failed |" in text
    assert "- coredns: a node lost: no DNS pod\n" in text


@pytest.mark.parametrize("compressed", [True, False])
def test_addresses_of_a_reply(compressed: bool) -> None:
    """Servers compress the owners of records or not."""
    query = dns.message.make_query("a.svc.cluster.local.", "A")
    reply = dns.message.make_response(query)
    reply.answer = [
        dns.rrset.from_text("a.svc.cluster.local.", 5, "IN", "CNAME", "b.svc.cluster.local."),
        dns.rrset.from_text("b.svc.cluster.local.", 5, "IN", "A", "192.0.2.1", "192.0.2.2"),
    ]
    assert addresses_of(reply.to_wire() if compressed else uncompressed(reply)) == {"192.0.2.1", "192.0.2.2"}


def uncompressed(reply: dns.message.Message) -> bytes:
    octets = io.BytesIO()
    for rrset in reply.answer:
        rrset.to_wire(octets)
    return reply.to_wire()[:12] + dns.message.make_query("a.svc.cluster.local.", "A").to_wire()[12:] + octets.getvalue()


def test_times_as_they_are_told() -> None:
    assert told([0.003, None, 0.001, 0.002]) == "2 ms, 2 ms, 3 ms of 3; 1 never"
    assert told([None]) == "1 never"
