"""Informers are shared between holders, adopted over a reload, and end with the last one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from fastdns.plugins.kubernetes._recorder import Recorder
from fastdns.plugins.kubernetes.watch import cluster as clusters
from fastdns.plugins.kubernetes.watch.cluster import Options, acquire
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.poller import NICE
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors, kinds
from fastdns.plugins.kubernetes.watch.selectors import Selector
from tests.waiting import LIMIT, until

OBJECTS = ["ns default", "svc default/a 10.0.0.1", "eps default/a 10.1.0.1", "pod default/p 10.1.0.1"]


def lists(server: Any) -> int:
    return len(server.requests)


def test_a_reload_adopts_what_runs(fakekube: Any) -> None:
    server = fakekube(OBJECTS)
    old = acquire(Endpoint(server.url), Options(), kinds(), Recorder)
    old.start()
    assert old.wait(LIMIT)
    asked = lists(server)
    new = acquire(Endpoint(server.url), Options(), kinds(), Recorder)
    assert new.sink is old.sink
    assert new.synced
    new.start()
    old.release()
    server.apply("svc default/b 10.0.0.2")
    until(lambda: ("default", "b") in new.sink.objects(Kind.SERVICE))  # type: ignore[attr-defined]
    assert lists(server) == asked
    new.release()
    new.release()
    assert not clusters.registry


def test_kinds_come_and_go_with_those_who_want_them(fakekube: Any, follow: Any) -> None:
    server = fakekube(OBJECTS)
    recorder, plain = follow(Endpoint(server.url), *kinds())
    assert recorder.objects(Kind.POD) == {}
    verified = acquire(Endpoint(server.url), Options(), kinds(pods=True), Recorder)
    assert not verified.synced
    verified.start()
    assert verified.wait(LIMIT)
    assert list(recorder.objects(Kind.POD)) == [("default", "p")]
    verified.release()
    until(lambda: recorder.objects(Kind.POD) == {})
    until(lambda: recorder.log[-1] == ("drop", "pod") and Kind.POD not in plain.cluster.served)
    assert plain.synced
    again = acquire(Endpoint(server.url), Options(), kinds(pods=True), Recorder)
    assert not again.synced
    again.start()
    assert again.wait(LIMIT)
    again.release()


OTHERS = [
    Options(selectors=Selectors(labels=Selector.parse("a=b"))),
    Options(selectors=Selectors(namespace_labels=Selector.parse("a=b"))),
    Options(pod_labels=True),
    Options(snapshot="/tmp/s"),
]


@pytest.mark.parametrize("options", OTHERS)
def test_other_options_are_another_cluster(options: Options) -> None:
    origin = Endpoint("http://127.0.0.1:1")
    one, other = acquire(origin, Options(), kinds(), Recorder), acquire(origin, options, kinds(), Recorder)
    assert one.sink is not other.sink
    one.release()
    other.release()


@pytest.mark.parametrize(("one", "same"), [("b=c,a", True), ("a,b=d", False)])
def test_equal_selectors_are_shared_however_they_are_written(one: str, same: bool) -> None:
    origin = Endpoint("http://127.0.0.1:1")
    first = acquire(origin, Options(selectors=Selectors(Selector.parse("a, b = c"))), kinds(), Recorder)
    second = acquire(origin, Options(selectors=Selectors(Selector.parse(one))), kinds(), Recorder)
    assert (first.sink is second.sink) is same
    first.release()
    second.release()


def test_a_lease_that_never_started_costs_nothing() -> None:
    lease = acquire(Endpoint("http://127.0.0.1:1"), Options(), kinds(), Recorder)
    assert lease.cluster.poller is None
    lease.release()


def test_the_thread_is_niced_once_it_has_listed_everything(fakekube: Any, follow: Any) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    _, lease = follow(Endpoint(fakekube(OBJECTS).url), *kinds())
    thread = lease.cluster.poller.thread.native_id
    until(lambda: os.getpriority(os.PRIO_PROCESS, thread) == max(NICE, before))
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_process_that_is_nicer_stays_so() -> None:
    """The thread must not come before the workers of a server that runs niced."""
    nicer = NICE + 5
    code = f"""
import os
from fastdns.plugins.kubernetes.watch.poller import lower_priority
os.setpriority(os.PRIO_PROCESS, 0, {nicer})
lower_priority()
print(os.getpriority(os.PRIO_PROCESS, 0))
"""
    assert int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) == nicer


def test_the_last_share_may_end_on_the_clusters_own_thread(fakekube: Any) -> None:
    """The garbage collector runs where it likes."""
    lease = acquire(Endpoint(fakekube(OBJECTS).url), Options(), kinds(), Recorder)
    lease.start()
    assert lease.wait(LIMIT)
    poller = lease.cluster.poller
    poller.call(lease.release)
    poller.thread.join(LIMIT)
    assert not poller.thread.is_alive()
    assert not clusters.registry


def test_an_error_in_a_posted_call_does_not_end_the_thread(fakekube: Any, follow: Any, lines: list[str]) -> None:
    server = fakekube(OBJECTS)
    recorder, lease = follow(Endpoint(server.url))
    lease.cluster.poller.call(lambda: 1 // 0)
    server.apply("svc default/b 10.0.0.2")
    until(lambda: ("default", "b") in recorder.objects(Kind.SERVICE))
    assert len(lines) == 1
    assert "ZeroDivisionError" in lines[0]


def test_kinds_of_the_properties() -> None:
    assert kinds() == {Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE}
    assert kinds(endpoints=False) == {Kind.NAMESPACE, Kind.SERVICE}
    assert kinds(pods=True, multicluster=True) == set(Kind)
