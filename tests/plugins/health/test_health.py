"""health: the page, its Corefile, the look at itself, lame duck."""

from __future__ import annotations

import signal
import socket
import threading
import urllib.error
from collections.abc import Callable

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins import health
from fastdns.setup import Controller
from tests.server import Server, free_port
from tests.waiting import until

Serve = Callable[..., Server]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("health", (":8080", "")),
        ("health localhost:1234", ("localhost:1234", "")),
        ("health [::1]:80", ("[::1]:80", "")),
        ("health {\nlameduck 4s\n}", (":8080", "4s")),
        ("health bla:a {\nlameduck 10m\n}", ("bla:a", "10m")),
        ("health {\n}", (":8080", "")),
    ],
)
def test_good(text: str, wanted: tuple[str, str]) -> None:
    assert health.parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("health bla", r"^address bla: missing port in address$"),
        ("health a:1 b:2", r"Testfile:1 - Error during parsing: Wrong argument count"),
        ("health {\nlameduck\n}", r"Testfile:2 - Error during parsing: Wrong argument count or unexpected line ending after 'lameduck'"),
        ("health {\nlameduck 1s 2s\n}", r"Testfile:2 - Error during parsing: Wrong argument count"),
        ("health {\nlameduck 4q\n}", r"^unable to parse lameduck duration value: '4q' : time: unknown unit"),
        ("health {\nother\n}", r"Testfile:2 - Error during parsing: unknown property 'other'"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=error):
        health.parse(Controller.of(text))


def test_the_page_lives_through_reloads_and_lame_duck(serve: Serve) -> None:
    corefile = ".:{port} {\n bind 127.0.0.1\n health 127.0.0.1:{port2} {\n  lameduck 3s\n }\n whoami\n}\n"
    second = "b.test:{port} {\n bind 127.0.0.1\n health 127.0.0.1:{port2}\n whoami\n}\n"
    server = serve(corefile)
    port = server.ports["port2"]
    failures: list[Exception] = []
    done = threading.Event()

    def probe() -> None:
        while not done.is_set():
            try:
                assert server.get(port, "/health") == "OK"
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=probe)
    thread.start()
    for text in (corefile + second, corefile, corefile + second):
        server.reload(text)
    start = len(server.log())
    server.write(corefile.replace("whoami", "health nonsense\n whoami"))
    server.signal(signal.SIGUSR1)
    server.wait_log(r"Restart failed", start=start)
    done.set()
    thread.join()
    assert not failures
    with pytest.raises(urllib.error.HTTPError, match="404"):
        server.get(port, "/")
    server.signal(signal.SIGTERM)
    server.wait_log(r"^\[INFO\] plugin/health: Going into lameduck mode for 3s$")
    assert server.get(port, "/health") == "OK"
    assert server.query("x.test").rcode() == 0
    assert server.exit_status() == 0


def test_the_page_goes_with_the_directive(serve: Serve) -> None:
    block = ".:{port} {\n bind 127.0.0.1\n HEALTH whoami\n}\n"
    server = serve(block.replace("HEALTH", "health 127.0.0.1:{port2}\n"))
    assert server.get(server.ports["port2"], "/health") == "OK"
    server.reload(block.replace("HEALTH", ""))
    with pytest.raises(OSError, match="refused"):
        server.get(server.ports["port2"], "/health")
    server.reload(block.replace("HEALTH", "health 127.0.0.1:{port2}\n"))
    assert server.get(server.ports["port2"], "/health") == "OK"


def test_an_address_in_use_refuses_the_corefile(serve: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = serve(f".:{{port}} {{\n bind 127.0.0.1\n health 127.0.0.1:{taken.getsockname()[1]}\n whoami\n}}", wait=False)
        assert server.exit_status() == 1
        assert "bind: address already in use" in server.log()


def test_the_look_at_itself_is_measured_and_told(serve: Serve) -> None:
    server = serve(".:{port} {\n bind 127.0.0.1\n health 127.0.0.1:{port2}\n prometheus 127.0.0.1:{port3}\n whoami\n}")
    metrics = server.ports["port3"]
    until(lambda: server.metric(metrics, "coredns_health_request_duration_seconds_count"))
    assert server.metric(metrics, "coredns_health_request_failures_total") == 0
    assert server.metric(metrics, 'coredns_health_request_duration_seconds_bucket{le="2.5"}') > 0


def test_a_look_that_fails_is_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(health.log.__class__, "warning", lambda self, text: said.append(text))
    monkeypatch.setattr(health, "INTERVAL", 0.01)
    before = dict(health.failures.collect())[()]
    check = health.Check(f"127.0.0.1:{free_port()}")
    check.start()
    until(lambda: said)
    check.stop()
    assert said[0].startswith(f'Local health request to "http://127.0.0.1:{check.port}/health" failed: ')
    assert dict(health.failures.collect())[()] > before  # type: ignore[operator]
    assert health.Check(":8080").url == "http://localhost:8080/health"
