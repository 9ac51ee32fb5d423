"""Informers are shared between holders, adopted over a reload, and end with the last one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fastdns import control
from fastdns.plugins.kubernetes.watch import cluster as clusters
from fastdns.plugins.kubernetes.watch.cluster import acquire
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.informers import Options
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors, kinds
from fastdns.plugins.kubernetes.watch.selectors import Selector
from tests.native.recorder import Recorder
from tests.server import free_port
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
    assert lease.cluster.tasks is None
    lease.release()


def test_the_loop_is_niced_once_a_cluster_is_listed(fakekube: Any, follow: Any) -> None:
    """One that was niced before is not while a cluster is listed."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    loop = control.loop()
    until(lambda: loop.niced)
    port = free_port()
    _, lease = follow(Endpoint(f"http://127.0.0.1:{port}"), *kinds(), wait=0)
    assert not loop.niced
    until(lambda: loop.native_id == loop.thread.native_id and os.getpriority(os.PRIO_PROCESS, loop.native_id) == before)
    fakekube(OBJECTS, port=port)
    until(lambda: loop.niced)
    assert lease.synced
    assert os.getpriority(os.PRIO_PROCESS, loop.native_id) == max(control.NICENESS, before)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_cluster_that_never_answers_does_not_keep_the_loop_from_being_niced(follow: Any) -> None:
    lease = acquire(Endpoint(f"http://127.0.0.1:{free_port()}"), Options(), kinds(), Recorder)
    lease.start()
    assert not control.loop().niced
    lease.release()
    until(lambda: control.loop().niced)


def test_the_last_share_may_end_on_the_loops_own_thread(fakekube: Any) -> None:
    """The garbage collector runs where it likes."""
    lease = acquire(Endpoint(fakekube(OBJECTS).url), Options(), kinds(), Recorder)
    lease.start()
    assert lease.wait(LIMIT)
    control.call_soon(lease.release)
    until(lambda: not control.loop().tasks)
    assert not clusters.registry


def test_kinds_of_the_properties() -> None:
    assert kinds() == {Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE}
    assert kinds(endpoints=False) == {Kind.NAMESPACE, Kind.SERVICE}
    assert kinds(pods=True, multicluster=True) == set(Kind)
