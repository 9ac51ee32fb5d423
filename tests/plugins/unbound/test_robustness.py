"""unbound under attack, without servers, across reloads, and at the end of the process."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from tests.plugins.unbound.internet import SILENT, TLD, Internet
from tests.server import Server
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]

#: Questions of a flood: more than a context may have.
FLOOD = 6000
METRICS = "prometheus 127.0.0.1:{port2}"


def queries(name: str, count: int) -> list[bytes]:
    return [dns.message.make_query(f"x{number}.{name}", "A", id=number % 65536).to_wire() for number in range(count)]


def send(server: Server, messages: list[bytes], source: str) -> socket.socket:
    """All at once, from an address; nobody reads the replies."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((source, 0))
    sock.connect(("127.0.0.1", server.port))
    for message in messages:
        sock.send(message)
    return sock


def sample(server: Server, name: str, labels: str = "") -> float:
    return server.metric(server.ports["port2"], f'{name}{{{labels}server="dns://127.0.0.1:{server.port}"}}')


# ---- silence ----


def test_a_silent_server_holds_up_its_own_zone_alone(serve: Serve, internet: Internet) -> None:
    server = serve(internet.corefile())
    with ThreadPoolExecutor(20) as pool:
        waiting = [pool.submit(server.query, f"host{number}.{SILENT}.{TLD}", timeout=LIMIT) for number in range(20)]
        assert [server.answers(f"host{number}.plain.{TLD}") for number in range(20)] == [[f"192.0.2.{number + 1}"] for number in range(20)]
        assert {reply.result().rcode() for reply in waiting} == {dns.rcode.SERVFAIL}


def test_a_client_that_has_gone_leaves_nothing(serve: Serve, internet: Internet) -> None:
    """Its connection ends while libunbound asks; the server goes on, also with what comes back for it."""
    server = serve(internet.corefile())
    message = dns.message.make_query(f"gone.{SILENT}.{TLD}", "A").to_wire()
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", server.port), timeout=REPLY) as sock:
            sock.sendall(len(message).to_bytes(2, "big") + message)
    assert server.answers(f"host1.nsec.{TLD}") == ["192.0.2.2"]


# ---- bounds ----


@pytest.mark.parametrize("sources", [["127.0.0.2"], [f"127.0.1.{number}" for number in range(1, 61)]], ids=["one-client", "many-clients"])
def test_a_flood_of_random_names_leaves_room_for_others(serve: Serve, internet: Internet, sources: list[str]) -> None:
    """One client, or one domain that many clients ask for: it holds half of what libunbound may have, and others are answered."""
    server = serve(internet.corefile(above=METRICS))
    assert server.answers(f"host1.plain.{TLD}") == ["192.0.2.2"]
    before = server.memory()
    messages = queries(f"{SILENT}.{TLD}", FLOOD)
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            for start, source in enumerate(sources):
                send(server, messages[start :: len(sources)], source).close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        until(lambda: sample(server, "fastdns_unbound_refused_total") > 100, "a refusal")
        # The domain is the last two labels: this one is another.
        answered = [server.query(f"host{number}.nsec.{TLD}", tcp=True, source="127.0.0.3", timeout=LIMIT) for number in range(10, 40)]
    finally:
        over.set()
        thread.join()
    assert [reply.answer[0][0].to_text() for reply in answered] == [f"192.0.2.{number + 1}" for number in range(10, 40)]
    assert server.memory() - before < 160 << 20


# ---- reload ----


def test_a_reload_keeps_the_cache(serve: Serve, internet: Internet) -> None:
    corefile = internet.corefile()
    server = serve(corefile)
    names = [f"host{number}.{zone}.{TLD}" for number in range(10) for zone in ("nsec", "plain")]

    def count() -> int:
        for name in names:
            assert server.query(name).answer
        return sum(internet.queries(place) for place in ("root", "tld", "leaves"))

    before = count()
    server.reload(corefile.replace("    unbound", "    loadbalance\n    unbound"))
    assert count() == before
    root = internet.queries("root")
    server.reload(internet.corefile(("qname-minimisation", "no")))
    assert count() > before
    assert internet.queries("root") > root
    tasks = [path.read_text() for path in Path(f"/proc/{server.pid}/task").glob("*/comm")]
    until(lambda: tasks.count("unbound\n") == 1, "the end of the former context")


def test_a_file_that_has_changed_makes_a_new_context(serve: Serve, internet: Internet) -> None:
    def prepare(folder: Path) -> None:
        (folder / "data.conf").write_text('server:\n    local-data: "one.invalid. A 192.0.2.1"\n')

    corefile = ".:{port} {\n    unbound {\n        config {dir}/data.conf\n    }\n}\n"
    server = serve(corefile, prepare=prepare)
    assert server.answers("one.invalid") == ["192.0.2.1"]
    (server.folder / "data.conf").write_text('server:\n    local-data: "one.invalid. A 192.0.2.2"\n')
    server.reload(corefile)
    assert server.answers("one.invalid") == ["192.0.2.2"]


def test_reloads_while_questions_wait(serve: Serve, internet: Internet) -> None:
    """A context ends with questions that it still has: of these nobody waits for an answer."""
    server = serve(internet.corefile())
    server.reload(internet.corefile(("outgoing-num-tcp", "9")))  # with which the thread that collects former configurations begins
    threads = server.threads()
    sock = send(server, queries(f"{SILENT}.{TLD}", 300), "127.0.0.2")
    for number in range(6):
        server.reload(internet.corefile(("outgoing-num-tcp", str(10 + number))))
        assert server.answers(f"host{number}.plain.{TLD}") == [f"192.0.2.{number + 1}"]
    sock.close()
    until(lambda: server.threads() <= threads, "the end of the former contexts")


# ---- the end ----


@pytest.mark.parametrize(("waiting", "status"), [(0, 0), (100, 3)])
def test_nothing_is_lost_before_the_end(serve: Serve, internet: Internet, waiting: int, status: int) -> None:
    """While `lameduck` lasts, queries are answered. Then the process ends: as with every plugin, after five seconds although queries wait."""
    server = serve(internet.corefile(above="health 127.0.0.1:{port2} {\n        lameduck 2s\n    }"))
    sock = send(server, queries(f"{SILENT}.{TLD}", waiting), "127.0.0.2")
    server.signal(signal.SIGTERM)
    server.wait_log("lameduck mode")
    for number in range(50, 80):
        assert server.answers(f"host{number}.nsec.{TLD}") == [f"192.0.2.{number + 1}"]
    assert server.exit_status() == status
    sock.close()


def test_another_process_takes_over(serve: Serve, internet: Internet) -> None:
    server = serve(internet.corefile())
    assert server.answers(f"host1.nsec.{TLD}") == ["192.0.2.2"]
    server.signal(signal.SIGUSR2)
    server.wait_log(r"Upgrade finished")
    assert server.exit_status() == 0
    assert server.answers(f"host2.nsec.{TLD}") == ["192.0.2.3"]


# ---- behind cache ----


def test_cache_and_unbound_together(serve: Serve, internet: Internet) -> None:
    server = serve(internet.corefile(above="cache"))
    for _ in range(3):
        reply = server.query(f"host1.nsec.{TLD}", want_dnssec=True)
        assert reply.answer
        assert reply.flags & dns.flags.AD
        request = dns.message.make_query(f"host1.expired.{TLD}", "A", want_dnssec=True)
        assert server.send(request).rcode() == dns.rcode.SERVFAIL
        request.flags |= dns.flags.CD
        assert server.send(request).answer
