"""What a run's page is made from: Ginkgo's JUnit files, and dnsperf's counts."""

from __future__ import annotations

import pytest

from tests.cluster import e2e
from tests.cluster.e2e import Spec
from tests.cluster.page import Page
from tests.cluster.rolling import Loss, addresses, counted
from tests.cluster.scene import Outcome

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


def test_page_of_faults() -> None:
    page = Page(["fastdns", "coredns"], 3, "nftables")
    page.add_fault("a node lost", "fastdns", Outcome(Loss(3000, 5, 7.0), "back after 3 s"))
    page.add_fault("a node lost", "coredns", RuntimeError("no DNS pod"))
    text = page.text()
    assert "| a node lost | 5 of 3000, 0.17 %, in 7 s; back after 3 s | failed |" in text
    assert "- coredns: a node lost: no DNS pod\n" in text
