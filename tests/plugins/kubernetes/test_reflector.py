"""Lists, watches and everything that goes wrong with them, against scripted servers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from fastdns.plugins.kubernetes.decode.refusals import LINES, MALFORMED, TRACKED
from fastdns.plugins.kubernetes.watch import client as clients
from fastdns.plugins.kubernetes.watch import cluster as clusters
from fastdns.plugins.kubernetes.watch import reflector
from fastdns.plugins.kubernetes.watch.connection import Endpoint
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors
from fastdns.plugins.kubernetes.watch.selectors import Selector
from fastdns.telemetry import events
from tests.plugins.kubernetes.conftest import STREAM, addresses, chunk, reply, service, service_list, status
from tests.server import free_port
from tests.waiting import LIMIT, until

FORBIDDEN = 'services is forbidden: User "system:anonymous" cannot list resource "services" in API group "" at the cluster scope'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(reflector, "PROBE_PAUSE", 0.1)
    monkeypatch.setattr(reflector, "SHORT", 0.05)


def event(kind: str, thing: Any) -> dict[str, Any]:
    return {"type": kind, "object": thing}


def bookmark(version: int, initial: bool = False) -> dict[str, Any]:
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}} if initial else {}
    return event("BOOKMARK", {"kind": "Service", "metadata": {"resourceVersion": str(version), **notes}})


def test_a_streaming_list_goes_on_as_a_watch(scripted: Any, follow: Any) -> None:
    def answer(path: str, query: dict[str, str]) -> Any:
        yield STREAM
        if "sendInitialEvents" in query:
            yield chunk(event("ADDED", service("a")), event("ADDED", service("b", "10.0.0.2")))
            yield 0.1
            yield chunk(bookmark(7, initial=True), event("MODIFIED", service("a", "10.0.0.9", 8)), event("DELETED", service("b", version=9)))
        yield 30.0

    server = scripted(answer)
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder) == {"a": "10.0.0.9"})
    assert recorder.log[0] == ("begin", "service", 0)
    assert ("commit", "service") in recorder.log
    path, query, headers = server.requests[0]
    assert path == "/api/v1/services"
    assert query | {"timeoutSeconds": ""} == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "",
    }
    assert 300 <= int(query["timeoutSeconds"]) <= 600
    assert headers["accept"] == "application/vnd.kubernetes.protobuf,application/json"
    assert headers["user-agent"].startswith("coredns/1.14.7 git_commit:")
    assert len(server.requests) == 1


REFUSALS = {
    "422 of a server without the feature": lambda: [reply(status(422, "Invalid", "sendInitialEvents is forbidden"), 422)],
    "an error event": lambda: [STREAM + chunk(event("ADDED", service("old")), event("ERROR", status(500, "InternalError", "etcd")))],
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_chunks_where_streaming_is_refused(scripted: Any, follow: Any, lines: list[str], refusal: Callable[[], list[bytes]]) -> None:
    def answer(path: str, query: dict[str, str]) -> Any:
        if "sendInitialEvents" in query:
            yield from refusal()
            yield None
        elif "watch" in query:
            yield STREAM
            yield 30.0
        elif query.get("continue") == "two":
            yield reply(service_list(service("b", "10.0.0.2"), version=20))
        else:
            yield reply(service_list(service("a"), version=20, following="two"))

    server = scripted(answer)
    recorder, _ = follow(Endpoint(server.url))
    assert addresses(recorder) == {"a": "10.0.0.1", "b": "10.0.0.2"}
    until(lambda: len(server.requests) == 4)
    assert [query.get("limit") for _, query, _ in server.requests[1:3]] == ["500", "500"]
    assert server.requests[3][1]["resourceVersion"] == "20"
    assert lines == []


def chunked_server(pages: list[Any], watches: list[Any]) -> Callable[[str, dict[str, str]], Any]:
    """Refuses streaming lists; gives pages and then watches in turn, the last of each again and again."""

    def answer(path: str, query: dict[str, str]) -> Any:
        if "sendInitialEvents" in query:
            yield reply(status(422), 422)
            return
        turn = watches if "watch" in query else pages
        piece = turn.pop(0) if len(turn) > 1 else turn[0]
        yield from piece if isinstance(piece, list) else [piece]

    return answer


FIRST, SECOND = service("a"), service("b", "10.0.0.2")
QUIET = [STREAM, 30.0]
AFTER_RELIST = reply(service_list(SECOND, version=30))

#: What the watch meets, and the log lines it causes: afterwards the list is asked again and has only service b.
RELISTS = {
    "410 as an event": ([STREAM + chunk(event("ERROR", status(410, "Expired", "too old resource version"))), None], []),
    "410 as the status": ([reply(status(410, "Expired", "too old resource version"), 410)], []),
}


@pytest.mark.parametrize(("watch", "said"), RELISTS.values(), ids=RELISTS.keys())
def test_a_version_too_old_means_a_new_list(scripted: Any, follow: Any, lines: list[str], watch: list[Any], said: list[str]) -> None:
    before = max((event.number for event in events.last()), default=0)
    server = scripted(chunked_server([reply(service_list(FIRST, version=5)), AFTER_RELIST], [watch, QUIET]))
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder) == {"b": "10.0.0.2"})
    assert lines == said
    cause = "the server cannot go on from the version of the watch: too old resource version"
    assert [(event.kind, event.subject, event.cause) for event in events.last(before)] == [("relist", "/api/v1/services", cause)]
    removed = recorder.log.index(("remove", "service", "default", "a"))
    assert recorder.log.index(("upsert", "service", "default", "b")) < removed, "nothing goes before the new list is whole"


#: A list that fails once, and the line that says so.
FAILURES = {
    "cut short": ([reply(service_list(FIRST))[:-40], None], "the list is cut short"),
    "chunked and cut short": ([STREAM + b"ffff\r\n" + json.dumps(service_list(FIRST)).encode()[:-9], None], "the list is cut short"),
    "malformed": ([reply(b'{"kind":"ServiceList","metadata":[],"items":[]}')], "malformed list"),
    "HTML of some proxy": ([reply(b"<html>", content_type="text/html")], "unexpected content type 'text/html'"),
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], "malformed HTTP response 'SSH-2.0-OpenSSH_9.2'"),
    "malformed chunks": ([STREAM + b"zz\r\n"], "malformed stream"),
    "403": ([reply(status(403, "Forbidden", FORBIDDEN), 403)], FORBIDDEN),
    "404": ([reply(b"404 page not found\n", 404, "text/plain")], "404 page not found"),
    "429": ([reply(status(429, "TooManyRequests", "slow down"), 429)], "slow down"),
    "500": ([reply(status(500, "InternalError", "oops"), 500)], "oops"),
    "503 without a body": ([reply(b"", 503)], "the server is currently unable to handle the request (get services)"),
}


@pytest.mark.parametrize(("page", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failed_list_is_said_and_tried_again(scripted: Any, follow: Any, lines: list[str], page: list[Any], said: str) -> None:
    server = scripted(chunked_server([page, AFTER_RELIST], [QUIET]))
    recorder, _ = follow(Endpoint(server.url))
    assert addresses(recorder) == {"b": "10.0.0.2"}
    assert len(lines) == 1
    assert lines[0].startswith("[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1.Service: ")
    assert said.format(url=server.url) in lines[0]


def refused(kind: str) -> Any:
    """How many objects of a kind have been refused."""
    return dict(MALFORMED.collect()).get((kind,), 0)


DEEP = b"[" * 20_000 + b"]" * 20_000

#: Objects and events that cost themselves alone: what the log says of each.
REFUSED = {
    "no name": ({"metadata": {"namespace": "x"}, "spec": {}}, "an object whose name cannot be read"),
    "another type": (service("evil") | {"spec": {"externalIPs": "10.0.0.1"}}, "default/evil"),
    "too deep": (service("evil") | {"spec": {"ports": ["@deep@"]}}, "default/evil"),
    "a text that is none": (service("evil") | {"spec": {"clusterIP": "\ud800"}}, "default/evil"),
    "odd metadata": ({"metadata": []}, "an object whose name cannot be read"),
}


def sent(value: Any) -> bytes:
    return json.dumps(value).replace('"@deep@"', DEEP.decode()).encode()


@pytest.mark.parametrize("listed", [True, False], ids=["list", "watch"])
@pytest.mark.parametrize(("one", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_object_costs_itself_alone(scripted: Any, follow: Any, lines: list[str], one: Any, named: str, listed: bool) -> None:
    before = refused("services")
    first = {"kind": "ServiceList", "metadata": {"resourceVersion": "5"}, "items": [service("a"), service("evil"), *[one] * listed]}
    watched = sent(event("MODIFIED", one)) * (not listed) + sent(event("MODIFIED", service("a", "10.0.0.7", 8)))
    server = scripted(chunked_server([reply(sent(first))], [[STREAM + chunk(watched), 30.0]]))
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder)["a"] == "10.0.0.7")
    assert len([query for _, query, _ in server.requests if "limit" in query]) == 1, "nothing is listed again"
    assert ("evil" in addresses(recorder)) == ("evil" not in named), "its former version is withdrawn, if its name can be read"
    assert [line.partition(": ")[2].partition(" is skipped: ")[0] for line in lines] == [f"services: {named}"]
    assert refused("services") == before + 1


def test_events_that_cannot_be_read_cost_themselves_alone(scripted: Any, follow: Any, lines: list[str]) -> None:
    odd = [event("SURPRISE", service("a")), {"type": "ADDED"}, {"type": 5, "object": {}}, event("BOOKMARK", {"metadata": "@deep@"}), event("BOOKMARK", 1)]
    watched = b"".join(map(sent, [*odd, event("MODIFIED", service("a", "10.0.0.7", 8))]))
    server = scripted(chunked_server([reply(service_list(FIRST, version=5))], [[STREAM + chunk(watched), 30.0]]))
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder)["a"] == "10.0.0.7")
    assert len(lines) == len(odd)


def test_a_refused_object_is_accepted_again(scripted: Any, follow: Any, lines: list[str]) -> None:
    wrong = service("a", version=6) | {"spec": {"ports": 70000}}
    pieces = [STREAM + chunk(event("MODIFIED", wrong)), 0.3, chunk(event("MODIFIED", service("a", "10.0.0.7", 8))), 30.0]
    server = scripted(chunked_server([reply(service_list(FIRST, version=5))], [pieces]))
    recorder, lease = follow(Endpoint(server.url))
    feed = lease.cluster.feed
    assert isinstance(feed, clusters.ApiFeed)
    refusals = feed.running[Kind.SERVICE][0].stream.refusals
    until(lambda: refusals.standing)
    assert list(refusals.standing) == [("default", "a")]
    assert addresses(recorder) == {}
    until(lambda: addresses(recorder) == {"a": "10.0.0.7"})
    assert not refusals.standing


def test_the_log_names_few_of_many_refused_objects(scripted: Any, follow: Any, lines: list[str]) -> None:
    wrong = [service(f"evil{number}") | {"spec": {"ports": 70000}} for number in range(500)]
    server = scripted(chunked_server([reply(service_list(FIRST, *wrong, version=5))], [QUIET]))
    recorder, lease = follow(Endpoint(server.url))
    assert addresses(recorder) == {"a": "10.0.0.1"}
    assert len(lines) <= 2 * LINES
    assert lines[LINES - 1].endswith("further ones of this minute are counted alone")
    feed = lease.cluster.feed
    assert isinstance(feed, clusters.ApiFeed)
    assert len(feed.running[Kind.SERVICE][0].stream.refusals.standing) == TRACKED


def test_a_kept_connection_that_the_server_closed_is_no_failure(scripted: Any, follow: Any, lines: list[str]) -> None:
    server = scripted(chunked_server([[None], AFTER_RELIST], [QUIET]))
    follow(Endpoint(server.url))
    assert [("limit" in query) for _, query, _ in server.requests[:3]] == [False, True, True]
    assert lines == []


def test_a_new_connection_that_the_server_closes_is_one(scripted: Any, follow: Any, lines: list[str]) -> None:
    turns = iter([[None]])
    server = scripted(lambda path, query: next(turns, [STREAM + chunk(bookmark(4, True)), 30.0]))
    follow(Endpoint(server.url))
    assert lines == [f'[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1.Service: Get "{server.url}/api/v1/services": EOF']


#: How a watch may end so that the next one resumes behind its last event, with nothing listed again.
ENDINGS = {
    "the server's time is up": [STREAM + chunk(event("MODIFIED", service("a", "10.0.0.7", 6))) + b"0\r\n\r\n"],
    "cut in the middle of an event": [STREAM + chunk(event("MODIFIED", service("a", "10.0.0.7", 6)), b'{"type":"MODI'), None],
    "cut in the middle of a chunk": [STREAM + chunk(event("MODIFIED", service("a", "10.0.0.7", 6))) + b"100\r\n{", None],
    "429": [reply(status(429, "TooManyRequests", "wait"), 429)],
    "500": [reply(status(500, "InternalError", "oops"), 500)],
    "503 as an event": [STREAM + chunk(event("ERROR", status(503, "ServiceUnavailable", "no"))), None],
    "closed": [None],
    "malformed event": [STREAM + chunk(b'{"type":"MODIFIED","object":[]}garbage')],
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_a_watch_resumes_where_it_ended(scripted: Any, follow: Any, ending: list[Any]) -> None:
    last = [STREAM + chunk(event("MODIFIED", service("a", "10.0.0.8", 9))), 30.0]
    server = scripted(chunked_server([reply(service_list(FIRST, version=5))], [ending, last]))
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder) == {"a": "10.0.0.8"})
    watched = [query["resourceVersion"] for _, query, _ in server.requests if "watch" in query and "sendInitialEvents" not in query]
    assert watched == ["5", "6" if b"10.0.0.7" in b"".join(piece for piece in ending if isinstance(piece, bytes)) else "5"]
    # No list, but a question whether the server has that version.
    assert {query.get("resourceVersion") for _, query, _ in server.requests if "watch" not in query} <= {None, *watched}
    assert sum("resourceVersion" not in query for _, query, _ in server.requests) == 2


def test_a_bookmark_moves_the_version_to_resume_from(scripted: Any, follow: Any) -> None:
    server = scripted(chunked_server([reply(service_list(FIRST, version=5))], [[STREAM + chunk(bookmark(44)) + b"0\r\n\r\n"], QUIET]))
    follow(Endpoint(server.url))
    until(lambda: len(server.requests) == 5)
    assert [query["resourceVersion"] for _, query, _ in server.requests[-2:]] == ["44", "44"]


def test_late_and_double_events_change_nothing(scripted: Any, follow: Any) -> None:
    new, old = service("a", "10.0.0.9", 9), service("a", "10.0.0.2", 7)
    watch = chunk(event("MODIFIED", new), event("MODIFIED", old), event("DELETED", old), event("MODIFIED", new), event("ADDED", service("end", version=10)))
    server = scripted(chunked_server([reply(service_list(FIRST, version=5))], [[STREAM + watch, 30.0]]))
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: "end" in addresses(recorder))
    assert addresses(recorder) == {"a": "10.0.0.9", "end": "10.0.0.1"}
    assert [entry for entry in recorder.log if entry[-1] == "a"] == [("upsert", "service", "default", "a")] * 2


def test_410_on_a_continue_token_starts_the_list_over(scripted: Any, follow: Any) -> None:
    asked = []

    def answer(path: str, query: dict[str, str]) -> Any:
        asked.append(query)
        if "sendInitialEvents" in query:
            yield reply(status(422), 422)
        elif "watch" in query:
            yield from QUIET
        elif "continue" in query and sum("continue" in query for query in asked) == 1:
            yield reply(status(410, "Expired", "The provided continue parameter is too old"), 410)
        elif "continue" in query:
            yield reply(service_list(SECOND, version=20))
        else:
            yield reply(service_list(FIRST, version=20, following="more"))

    recorder, _ = follow(Endpoint(scripted(answer).url))
    assert addresses(recorder) == {"a": "10.0.0.1", "b": "10.0.0.2"}


@pytest.mark.parametrize(("way", "asked"), [("says so", [None, "901", None]), ("has another reason", [None, "901", "901", "901", None])])
def test_a_version_that_the_server_does_not_have_is_forgotten(scripted: Any, follow: Any, way: str, asked: list[str | None]) -> None:
    """etcd came back from a backup: versions start over, and what was served follows."""

    def answer(path: str, query: dict[str, str]) -> Any:
        if query.get("sendInitialEvents") and not query.get("resourceVersion"):
            first = len(server.requests) == 1
            yield STREAM + chunk(event("ADDED", service("a", "10.0.0.1" if first else "10.0.0.5", 900 if first else 3)), bookmark(901 if first else 4, True))
            yield None if first else 30.0
        elif query.get("sendInitialEvents") or way == "says so":
            yield reply(status(504, "Timeout", "Too large resource version: 901, current: 4"), 504, Retry_After="1")
        else:
            yield reply(status(410, "Expired"), 410)

    server = scripted(answer)
    recorder, _ = follow(Endpoint(server.url))
    until(lambda: addresses(recorder) == {"a": "10.0.0.5"})
    assert [query.get("resourceVersion") for _, query, _ in server.requests] == asked


def test_who_may_list_and_not_watch_is_served_from_lists(scripted: Any, follow: Any, lines: list[str]) -> None:
    """As with client-go: the streaming list is refused, the list is not, and the watch that cannot follow is said."""
    forbidden = FORBIDDEN.replace("cannot list", "cannot watch")
    pages = [service_list(FIRST, version=5), service_list(FIRST, SECOND, version=6)]

    def answer(path: str, query: dict[str, str]) -> Any:
        if "watch" in query:
            yield reply(status(403, "Forbidden", forbidden), 403)
        else:
            yield reply(pages.pop(0) if len(pages) > 1 else pages[0])

    recorder, _ = follow(Endpoint(scripted(answer).url))
    until(lambda: set(addresses(recorder)) == {"a", "b"})
    assert lines[0] == f"[ERROR] plugin/kubernetes: Failed to watch: {forbidden}"


def test_a_list_that_drips_is_given_up(scripted: Any, follow: Any, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "SLOW_SECONDS", 0.3)

    def drip(path: str, query: dict[str, str]) -> Any:
        if "sendInitialEvents" in query and len(server.requests) > 1:
            yield STREAM + chunk(event("ADDED", service("b")), bookmark(9, True))
            yield 30.0
        yield STREAM
        for octet in chunk(event("ADDED", service("a"))):
            yield bytes([octet])
            yield 0.05

    server = scripted(drip)
    recorder, _ = follow(Endpoint(server.url))
    assert set(addresses(recorder)) == {"b"}
    assert "a list of " in lines[0]


def test_a_list_that_stalls_is_given_up(scripted: Any, follow: Any, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "STALLED", 0.2)
    first = [STREAM + chunk(event("ADDED", service("a"))), 2.0]
    turns = iter([first])
    server = scripted(lambda path, query: next(turns, [STREAM + chunk(event("ADDED", service("b")), bookmark(9, True)), 30.0]))
    recorder, _ = follow(Endpoint(server.url))
    assert set(addresses(recorder)) == {"b"}
    assert lines[0].endswith('/api/v1/services": read: i/o timeout')


def test_retry_after_is_kept(scripted: Any, follow: Any) -> None:
    times = []

    def answer(path: str, query: dict[str, str]) -> Any:
        times.append(time.monotonic())
        if len(times) == 1:
            yield reply(status(429, "TooManyRequests"), 429, Retry_After="1")
        else:
            yield STREAM + chunk(bookmark(4, True))
            yield 30.0

    follow(Endpoint(scripted(answer).url))
    assert times[1] - times[0] >= 1.0


def test_refused_connections_are_not_logged(fakekube: Any, follow: Any, lines: list[str]) -> None:
    port = free_port()
    recorder, lease = follow(Endpoint(f"http://127.0.0.1:{port}"), wait=0)
    assert not lease.wait(0.3, say=False)
    assert lines == []
    fakekube(["svc default/a 10.0.0.1"], port=port)
    assert lease.wait(LIMIT)
    assert addresses(recorder) == {"a": "10.0.0.1"}


def test_waiting_is_said_twice_a_second(lines: list[str], follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only goes on while it waits."""
    clock = Clock()
    monkeypatch.setattr(clusters, "time", clock)
    _, lease = follow(Endpoint(f"http://127.0.0.1:{free_port()}"), wait=0)
    monkeypatch.setattr(lease.cluster, "changed", clock)
    assert not lease.wait(1.2)
    waiting = "[INFO] plugin/kubernetes: waiting for Kubernetes API before starting server"
    assert lines == [waiting, waiting, "[WARNING] plugin/kubernetes: starting server with unsynced Kubernetes API"]
    assert clock.now == pytest.approx(1.2)


class Clock(threading.Condition):
    """Nobody ever notifies it, and it does not take the time that waiting takes."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        return False


def test_all_go_on_as_soon_as_one_gets_through(fakekube: Any, follow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 30.0)
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 20.0)
    server = fakekube(["ns default", "svc default/a 10.0.0.1", "eps default/a 10.1.0.1"], down=True)
    _, lease = follow(Endpoint(server.url), Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, wait=0)
    time.sleep(0.3)
    server.set_down(False)
    assert lease.wait(LIMIT, say=False)


def test_only_the_missing_resource_waits(scripted: Any, follow: Any, lines: list[str]) -> None:
    def answer(path: str, query: dict[str, str]) -> Any:
        if "multicluster" in path:
            yield reply(b"404 page not found\n", 404, "text/plain")
        else:
            yield STREAM + chunk(event("ADDED", service("a")), bookmark(4, True))
            yield 30.0

    recorder, lease = follow(Endpoint(scripted(answer).url), Kind.SERVICE, Kind.IMPORT, wait=0)
    until(lambda: addresses(recorder) == {"a": "10.0.0.1"} and lines)
    time.sleep(0.3)
    assert lines == ["[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1alpha1.ServiceImport: 404 page not found"]
    assert not lease.synced


SELECTED = {
    Kind.NAMESPACE: ("/api/v1/namespaces", "env=prod", None),
    Kind.SERVICE: ("/api/v1/services", "app in (a,b),!old", None),
    Kind.SLICE: ("/apis/discovery.k8s.io/v1/endpointslices", "app in (a,b),!old", None),
    Kind.POD: ("/api/v1/pods", "app in (a,b),!old", "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"),
    Kind.IMPORT: ("/apis/multicluster.x-k8s.io/v1alpha1/serviceimports", "env=prod", None),
    Kind.IMPORT_SLICE: ("/apis/discovery.k8s.io/v1/endpointslices", "app in (a,b),!old,multicluster.kubernetes.io/service-name", None),
}


@pytest.mark.parametrize("kind", SELECTED, ids=lambda kind: kind.name)
def test_selectors(scripted: Any, follow: Any, kind: Kind) -> None:
    def answer(path: str, query: dict[str, str]) -> Any:
        yield STREAM + chunk(bookmark(4, True))
        yield 30.0

    server = scripted(answer)
    selectors = Selectors(Selector.parse("app in (b,a), !old"), Selector.parse("env==prod"))
    follow(Endpoint(server.url), kind, selectors=selectors)
    path, query, _ = server.requests[0]
    assert (path, query.get("labelSelector"), query.get("fieldSelector")) == SELECTED[kind]


def test_a_store_without_memory_is_listed_again(scripted: Any, follow: Any, lines: list[str]) -> None:
    pages = chunked_server([reply(service_list(FIRST, version=5))], [QUIET])
    refusing = threading.Event()

    def answer(path: str, query: dict[str, str]) -> Any:
        refusing.wait(LIMIT)
        return pages(path, query)

    server = scripted(answer)
    recorder, lease = follow(Endpoint(server.url), wait=0)
    recorder.refuses = True
    refusing.set()
    until(lambda: lines)
    # Each try that fails has its line.
    assert set(lines) == {"[ERROR] plugin/kubernetes: Failed to watch: failed to list *v1.Service: out of memory"}
    recorder.refuses = False
    assert lease.wait(LIMIT)
    assert addresses(recorder) == {"a": "10.0.0.1"}


def test_a_bad_trigger_time_is_said(scripted: Any, follow: Any, lines: list[str]) -> None:
    notes = {"endpoints.kubernetes.io/last-change-trigger-time": "yesterday"}
    thing = {"metadata": {"name": "s", "namespace": "n", "annotations": notes}, "endpoints": None, "ports": None}
    server = scripted(lambda path, query: [STREAM + chunk(event("ADDED", thing), bookmark(4, True)), None])
    recorder, _ = follow(Endpoint(server.url), Kind.SLICE)
    assert recorder.objects(Kind.SLICE)["n", "s"]["trigger"] == 0
    until(lambda: lines)
    assert lines[0] == (
        "[WARNING] plugin/kubernetes: DnsProgrammingLatency cannot be calculated for Endpoints 'n/s'; invalid"
        ' "endpoints.kubernetes.io/last-change-trigger-time" annotation RFC3339 value of "yesterday"'
    )
