"""Canaries: a share of the clients gets the new configuration, each client one at a time, and what fails is rolled back with nothing lost."""

from __future__ import annotations

import http.client
import json
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from tests import grpc_client, quic
from tests.certificates import write_certificates
from tests.server import Server, command, free_port
from tests.waiting import LIMIT, REPLY, until

Serve = Callable[..., Server]

CLIENTS = 240
SHARE = 0.3

TEXT = """
.:{port} {
    bind 127.0.0.1
    reload 1h 0s {
        canary 30% DURATION fail-if servfail>5% refused>5% dropped>5%
    }
    prometheus 127.0.0.1:{port2}
    health 127.0.0.1:{port3}
    cache 30
    BODY
}
"""
ANSWER = 'template IN A {\n        answer "{{ .Name }} 60 IN A 192.0.2.NUMBER"\n    }'


def corefile(number: int, duration: str = "1h") -> str:
    return TEXT.replace("BODY", ANSWER).replace("NUMBER", str(number)).replace("DURATION", duration)


def failing(duration: str = "1h", rcode: str = "SERVFAIL") -> str:
    return TEXT.replace("BODY", f"template IN A {{\n        rcode {rcode}\n    }}").replace("DURATION", duration)


def client(number: int) -> str:
    return f"127.1.{number // 200}.{number % 200 + 1}"


class Clients:
    """Clients of many addresses that ask one after the other, over UDP and TCP in turn, and keep what each was told, and when."""

    def __init__(self, server: Server) -> None:
        self.server = server
        #: When each asked, and what it was told.
        self.seen: list[list[tuple[float, str]]] = [[] for _ in range(CLIENTS)]
        self.lost: list[str] = []
        self.rounds = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(part,)) for part in range(4)]

    def _run(self, part: int) -> None:
        own = range(part, CLIENTS, 4)
        sockets, streams = [], []
        for number in own:
            for kind, found in ((socket.SOCK_DGRAM, sockets), (socket.SOCK_STREAM, streams)):
                sock = socket.socket(socket.AF_INET, kind)
                found.append(sock)
                sock.settimeout(REPLY)
                if kind == socket.SOCK_DGRAM:
                    sock.bind((client(number), 0))
                    sock.connect(("127.0.0.1", self.server.port))
        turn = 0
        while not self._over.is_set():
            turn += 1
            for place, number in enumerate(own):
                request = dns.message.make_query(f"n{turn % 7}-{number % 3}.example.org.", "A")
                asked = time.monotonic()
                try:
                    if (turn + number) % 3:
                        reply = dns.query.udp(request, "127.0.0.1", REPLY, self.server.port, sock=sockets[place])
                    else:
                        reply = self._stream(streams, place, number, request)
                except (OSError, dns.exception.DNSException) as error:
                    self.lost.append(f"{client(number)}: {error!r}")
                    continue
                self.seen[number].append((asked, told(reply)))
            if part == 0:
                self.rounds += 1
        for sock in (*sockets, *streams):
            sock.close()

    def _stream(self, streams: list[socket.socket], place: int, number: int, request: dns.message.Message) -> dns.message.Message:
        """Over the client's connection; one that has been idle for too long is opened again, before the question."""
        sock = streams[place]
        if sock.getsockname()[0] == "0.0.0.0" or time.monotonic() - (self.seen[number] or [(0.0, "")])[-1][0] > 5:
            sock.close()
            sock = streams[place] = socket.socket()
            sock.settimeout(REPLY)
            sock.bind((client(number), 0))
            sock.connect(("127.0.0.1", self.server.port))
        wire = request.to_wire()
        sock.sendall(struct.pack("!H", len(wire)) + wire)
        size = struct.unpack("!H", read(sock, 2))[0]
        return dns.message.from_wire(read(sock, size))

    @contextmanager
    def asking(self) -> Iterator[Clients]:
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._over.set()
            for thread in self._threads:
                thread.join()

    def more(self, rounds: int = 2) -> None:
        """Until all have asked that often again."""
        counts = [len(seen) for seen in self.seen]
        until(lambda: all(len(seen) >= count + rounds for seen, count in zip(self.seen, counts, strict=True)), "further answers")

    def told(self, begin: float, end: float) -> list[set[str]]:
        """What each client was told that asked between two times."""
        return [{answer for when, answer in seen if begin <= when <= end} for seen in self.seen]


def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


def told(reply: dns.message.Message) -> str:
    if reply.rcode() != dns.rcode.NOERROR:
        return dns.rcode.to_text(reply.rcode())
    return reply.answer[0][0].to_text()


def run(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command(), "canary", *words, "-pid", str(server.pid)], capture_output=True, text=True, timeout=LIMIT, check=False)


def begin(server: Server, text: str) -> None:
    start = len(server.log())
    server.write(text)
    server.signal(signal.SIGUSR1)
    server.wait_log(r"Canary: 30% of the clients for", start=start)


def metric(server: Server, name: str) -> float:
    return server.metric(server.ports["port2"], name)


def split(found: list[set[str]], one: str, other: str) -> set[int]:
    """The clients that were told the other; each was told one of both, and nothing else."""
    assert all(len(each) == 1 and each <= {one, other} for each in found), [each for each in found if len(each) != 1 or not each <= {one, other}]
    chosen = {number for number, each in enumerate(found) if each == {other}}
    # Thirty percent of 240 are 72; six standard deviations are 43.
    assert 29 <= len(chosen) <= 115
    return chosen


def test_canaries_begin_fail_and_are_promoted_under_load(serve: Serve) -> None:
    """Nothing is lost, and each client has one configuration at a time, over UDP and TCP."""
    server = serve(corefile(1))
    with Clients(server).asking() as clients:
        clients.more()
        # Promoted when told so.
        begin(server, corefile(2))
        began = time.monotonic()
        clients.more(4)
        first = split(clients.told(began, time.monotonic()), "192.0.2.1", "192.0.2.2")
        assert metric(server, "fastdns_canary_share") == 0.3
        assert metric(server, 'fastdns_canary_replies_total{configuration="canary",rcode="NOERROR"}') > 0
        assert run(server, "promote").stdout == "canary promoted\n"
        promoted = time.monotonic()
        clients.more(3)
        assert clients.told(promoted, time.monotonic()) == [{"192.0.2.2"}] * CLIENTS
        server.wait_log("Reloading complete")
        # One that fails is rolled back by itself, long before its hour is over.
        start = len(server.log())
        begin(server, failing())
        server.wait_log(
            r"Canary rolled back: servfail>5%: \d+ of \d+ answers of the canary configuration \(\d+\.\d\d%\), 0 of \d+ answers of the serving", start=start
        )
        over = time.monotonic()
        clients.more(3)
        assert clients.told(over, time.monotonic()) == [{"192.0.2.2"}] * CLIENTS
        # Another key chooses other clients.
        begin(server, corefile(3))
        began = time.monotonic()
        clients.more(4)
        assert split(clients.told(began, time.monotonic()), "192.0.2.2", "192.0.2.3") != first
        # Another reload ends it, and begins the next one.
        begin(server, corefile(4))
        began = time.monotonic()
        clients.more(4)
        split(clients.told(began, time.monotonic()), "192.0.2.2", "192.0.2.4")
        assert run(server, "abort").stdout == "canary aborted\n"
        over = time.monotonic()
        clients.more(3)
        assert clients.told(over, time.monotonic()) == [{"192.0.2.2"}] * CLIENTS
    assert clients.lost == []
    assert clients.rounds > 10
    for seen in clients.seen:
        turns = [answer for place, (_, answer) in enumerate(seen) if place == 0 or answer != seen[place - 1][1]]
        # From one to the next, and from a canary back: nothing alternates while one runs.
        assert re.fullmatch(r"1 ?2 ?(S 2 ?)?(3 )?(2 )?(4 )?(2 ?)?", " ".join("S" if turn == "SERVFAIL" else turn[-1] for turn in turns)), turns
    for outcome, count in (("promoted", 1), ("failed", 1), ("replaced", 1), ("aborted", 1)):
        assert metric(server, f'fastdns_canary_ends_total{{outcome="{outcome}"}}') == count
    assert metric(server, "fastdns_canary_share") == 0
    assert metric(server, "coredns_reload_failed_total") == 1
    assert metric(server, 'fastdns_events_total{kind="canary"}') == 8


def test_a_canary_without_a_failure_is_promoted(serve: Serve) -> None:
    """After its time, also without a single answer; the next one goes by what it says."""
    server = serve(corefile(1, "2s"))
    start = len(server.log())
    begin(server, corefile(2, "1h"))
    server.wait_log(r"Canary promoted: 2 s are over, serving: no answers; canary: no answers\n(.*\n)*.*Reloading complete", start=start)
    assert server.answers("a.example.org.") == ["192.0.2.2"]
    begin(server, corefile(3))
    section = json.loads(run(server, "status", "-json").stdout)
    assert section["running"]["seconds"] == 3600
    assert section["running"]["conditions"] == "servfail>5% or refused>5% or dropped>5%"
    assert "promoted" in section["events"][1]["cause"]
    assert "no answers" in run(server).stdout


def ask_all(server: Server, name: str = "a.example.org.") -> list[str]:
    return [told(server.query(name, source=client(number))) for number in range(CLIENTS)]


@pytest.mark.parametrize("rcode", ["REFUSED", "NXDOMAIN"])
def test_which_answers_fail(serve: Serve, rcode: str) -> None:
    """Those of a condition, and no others."""
    server = serve(corefile(1))
    start = len(server.log())
    begin(server, failing(rcode=rcode))
    for _ in range(2):
        ask_all(server)
    if rcode == "REFUSED":
        server.wait_log("Canary rolled back: refused>5%", start=start)
        assert set(ask_all(server)) == {"192.0.2.1"}
    else:
        time.sleep(0.5)
        assert set(ask_all(server)) == {"192.0.2.1", "NXDOMAIN"}


def mixed(number: int, broken: str) -> str:
    """Answers all names but those below `broken`."""
    return corefile(number).replace("template IN A {", f"template IN A {broken} {{\n        rcode SERVFAIL\n    }}\n    template IN A {{")


def chosen_of(server: Server, answer: str) -> list[str]:
    """The clients that have the configuration with this answer."""
    return [client(number) for number, each in enumerate(ask_all(server)) if each == answer]


def test_one_client_that_fails_in_any_case_ends_no_canary(serve: Serve) -> None:
    """Nor does it hide one that fails for others, and nor does one that floods good answers."""
    server = serve(mixed(1, "dead.test"))
    begin(server, mixed(2, "dead.test"))
    start = len(server.log())
    one = chosen_of(server, "192.0.2.2")[0]
    for number in range(400):
        assert told(server.query(f"n{number}.dead.test.", source=one)) == "SERVFAIL"
    name = 'fastdns_canary_replies_total{configuration="canary",rcode="SERVFAIL"}'
    until(lambda: metric(server, name) == 400, "the counts")
    server.query("n.dead.test.", source=one)
    until(lambda: metric(server, name) == 401, "a judgement of the 400")
    assert "Canary rolled back" not in server.log()
    assert run(server, "promote").returncode == 0
    # The next one is broken for a zone that ten clients ask for. Another client floods good answers, and one of the serving configuration fails.
    begin(server, mixed(3, "dead.test broken.test"))
    other, *broken = chosen_of(server, "192.0.2.3")[:11]
    serving = chosen_of(server, "192.0.2.2")[0]
    for number in range(400):
        server.query(f"n{number}.example.org.", source=other)
        server.query(f"n{number}.dead.test.", source=serving)
    assert "Canary rolled back" not in server.log()[start:]
    for number in range(10):
        for source in broken:
            server.query(f"n{number}.broken.test.", source=source)
    wanted = r"Canary rolled back: servfail>5%: \d+ of .*; failing clients: \d+ of \d+ of the canary, 1 of \d+ of the serving configuration"
    server.wait_log(wanted, start=start)


def test_a_canary_by_signal_is_not_tried_again_by_the_watch(serve: Serve) -> None:
    """*reload* looks at the file meanwhile. That the former text is there again ends it, and empties no cache."""

    def watched(text: str) -> str:
        return text.replace("reload 1h 0s", "reload 2s 0s")

    server = serve(watched(corefile(1)))
    start = len(server.log())
    begin(server, watched(corefile(2)))
    time.sleep(2.5)
    assert server.log()[start:].count("Canary: 30%") == 1
    assert run(server, "abort").returncode == 0
    begin(server, watched(failing()))
    ask_all(server)
    server.wait_log("Canary rolled back: servfail>5%", start=start)
    ask_all(server)
    hits = f'coredns_cache_hits_total{{server="dns://127.0.0.1:{server.port}",type="success",view="",zones="."}}'
    before = metric(server, hits)
    time.sleep(2.5)
    server.write(watched(corefile(1)))
    time.sleep(2.5)
    assert server.log()[start:].count("Canary: 30%") == 2
    assert server.log()[start:].count("Reloading\n") == 4, "two by the signal, and two lines each"
    assert set(ask_all(server)) == {"192.0.2.1"}
    assert metric(server, hits) == before + CLIENTS


def test_zones_that_are_gone_fail(serve: Serve) -> None:
    """No chain takes the query: it counts all the same."""
    server = serve(corefile(1))
    start = len(server.log())
    begin(server, corefile(1).replace(".:{port}", "other.example:{port}"))
    ask_all(server)
    server.wait_log("Canary rolled back: refused>5%", start=start)


def test_signals_and_the_file_as_it_was(serve: Serve) -> None:
    """SIGUSR2 takes the canary back first; a Corefile as it was ends it without emptying the cache; SIGTERM ends both configurations."""
    server = serve(corefile(1))
    begin(server, corefile(2))
    server.write(corefile(1))
    server.signal(signal.SIGUSR1)
    server.wait_log(r"Canary rolled back: another configuration is loaded\. .*\n(.*\n)*.*Reloading complete: this configuration has been serving")
    assert set(ask_all(server)) == {"192.0.2.1"}
    begin(server, corefile(3))
    start = len(server.log())
    server.signal(signal.SIGUSR2)
    server.wait_log(r"Canary rolled back: the program is started again", start=start)
    server.wait_log("Upgrade finished", start=start)
    (server.pid,) = server.successors()
    assert set(ask_all(server)) == {"192.0.2.1"}
    # The process that took over has canaries, too.
    start = len(server.log())
    server.write(corefile(4))
    server.signal(signal.SIGUSR1)
    until(lambda: "Canary: 30% of the clients" in server.log()[start:], "the canary")
    assert set(ask_all(server)) == {"192.0.2.1", "192.0.2.4"}


PLUGIN = """
from fastdns.telemetry.log import write

def setup(controller):
    for hook in ("startup", "started", "shutdown", "restart", "restart_failed"):
        getattr(controller, "on_" + hook)(lambda hook=hook: write(f"NUMBER {hook}"))
    controller.on_started(lambda: write("NUMBER whole"), whole=True)
"""


def hooks(server: Server, start: int = 0) -> list[str]:
    return re.findall(r"^(\d \w+)$", server.log()[start:], re.M)


def test_hooks_of_both_configurations(serve: Serve, tmp_path: Path) -> None:
    for number in range(1, 5):
        (tmp_path / f"p{number}.py").write_text(PLUGIN.replace("NUMBER", str(number)))

    def text(number: int) -> str:
        return corefile(number).replace("cache 30", f"plugin {tmp_path}/p{number}.py")

    server = serve(text(1))
    assert hooks(server) == ["1 startup", "1 started", "1 whole"]
    start = len(server.log())
    begin(server, text(2))
    until(lambda: hooks(server, start) == ["2 startup", "2 started"], "the hooks of the canary")
    assert run(server, "abort").returncode == 0
    until(lambda: hooks(server, start)[2:] == ["2 shutdown"], "the end of the canary")
    start = len(server.log())
    begin(server, text(3))
    assert run(server, "promote").returncode == 0
    until(lambda: hooks(server, start) == ["3 startup", "3 started", "1 restart", "1 shutdown", "3 whole"], "the hooks of both")
    begin(server, text(4))
    start = len(server.log())
    assert server.stop() == 0
    assert hooks(server, start) == ["4 shutdown", "3 shutdown"]


def test_new_addresses_open_when_it_is_promoted(serve: Serve) -> None:
    """And are known to be free when it begins. Pages stay those of the configuration that serves."""
    server = serve(corefile(1))
    health = server.ports["port3"]
    other, third = str(free_port()), str(free_port())
    begin(server, corefile(2).replace(".:{port}", f".:{{port}} .:{other}").replace("127.0.0.1:{port3}", f"127.0.0.1:{third}"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(other)), 1)
    assert server.get(health, "/health") == "OK"
    assert run(server, "promote").returncode == 0
    assert [told(server.query("a.example.org.", port=int(other), tcp=tcp)) for tcp in (False, True)] == ["192.0.2.2"] * 2
    assert server.get(int(third), "/health") == "OK"
    with pytest.raises(OSError, match="refused"):
        server.get(health, "/health")
    # An address that goes stays with those who ask there until then.
    begin(server, corefile(3))
    assert {told(server.query("a.example.org.", port=int(other), source=client(number))) for number in range(40)} == {"192.0.2.2"}
    assert run(server, "abort").returncode == 0
    # One that cannot be opened is found out at the beginning.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server.write(corefile(4).replace(".:{port}", f".:{{port}} .:{taken.getsockname()[1]}"))
        server.signal(signal.SIGUSR1)
        server.wait_log(r"Restart failed: Listen: listen tcp 127\.0\.0\.1:\d+: bind: address already in use")
    assert set(ask_all(server)) == {"192.0.2.2"}


def test_an_address_that_is_taken_meanwhile(serve: Serve) -> None:
    """It cannot take over, and is rolled back."""
    server = serve(corefile(1))
    other = free_port()
    begin(server, corefile(2).replace(".:{port}", f".:{{port}} .:{other}"))
    with socket.create_server(("127.0.0.1", other)):
        assert "ended otherwise" in run(server, "promote").stderr
    server.wait_log("Canary rolled back: it cannot take over: Listen: listen tcp .*: bind: address already in use")
    assert set(ask_all(server)) == {"192.0.2.1"}
    assert run(server, "promote").stderr == "no canary runs\n"


def test_memory_of_both(serve: Serve) -> None:
    """A block that is as it was shares its cache; another one's has a share of its capacity until the canary is promoted."""
    same = 'same.example:{port} {\n    bind 127.0.0.1\n    cache 3600\n    template IN A {\n        answer "{{ .Name }} 3600 IN A 192.0.2.9"\n    }\n}\n'

    def text(number: int) -> str:
        return same + corefile(number).replace("cache 30\n", "cache 3600 {\n        success 8192\n    }\n")

    server = serve(text(1))

    def sample(name: str, zone: str) -> float:
        return metric(server, f'{name}{{server="dns://127.0.0.1:{server.port}",type="success",view="",zones="{zone}"}}')

    for number in range(50):
        server.query(f"n{number}.same.example.")
    assert sample("coredns_cache_entries", "same.example.") == 50
    begin(server, text(2))
    before = sample("coredns_cache_hits_total", "same.example.")
    for number in range(CLIENTS):
        assert server.query("n1.same.example.", source=client(number)).answer
    assert sample("coredns_cache_hits_total", "same.example.") == before + CLIENTS, "all clients find what was there"

    chosen = next(client(number) for number in range(CLIENTS) if told(server.query("a.example.org.", source=client(number))) == "192.0.2.2")

    def fill(prefix: str, count: int) -> float:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((chosen, 0))
            sock.settimeout(REPLY)
            for number in range(count):
                dns.query.udp(dns.message.make_query(f"{prefix}{number}.example.org.", "A"), "127.0.0.1", REPLY, server.port, sock=sock)
        return sample("coredns_cache_entries", ".")

    # Thirty percent of 8,192 in whole shards.
    assert 2000 < fill("x", 4000) <= 2457
    assert run(server, "promote").returncode == 0
    assert fill("y", 2500) > 4000


def test_queries_end_where_they_began(serve: Serve) -> None:
    """Those that wait in a canary that is taken back are answered by it, and so are those of a configuration that it replaces."""
    slow = TEXT.replace("cache 30", "").replace("DURATION", "1h").replace("BODY", "erratic {\n        drop 0\n        delay 1 1500ms\n    }")
    server = serve(corefile(1))

    def asked() -> list[tuple[socket.socket, dns.message.Message]]:
        found = []
        for number in range(60):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((client(number), 0))
            sock.settimeout(REPLY)
            request = dns.message.make_query(f"n{number}.example.org.", "A")
            sock.sendto(request.to_wire(), ("127.0.0.1", server.port))
            found.append((sock, request))
        return found

    def answers(waiting: list[tuple[socket.socket, dns.message.Message]]) -> list[str]:
        found = []
        for sock, request in waiting:
            with sock:
                reply = dns.message.from_wire(sock.recv(4096))
            assert reply.id == request.id
            found.append(told(reply))
        return found

    begin(server, slow)
    waiting = asked()
    assert run(server, "abort").returncode == 0
    found = answers(waiting)
    assert set(found) == {"192.0.2.1", "192.0.2.53"}, "erratic answers 192.0.2.53"
    assert set(ask_all(server)) == {"192.0.2.1"}
    begin(server, slow)
    assert run(server, "promote").returncode == 0
    begin(server, corefile(2))
    waiting = asked()
    assert run(server, "promote").returncode == 0
    assert set(answers(waiting)) == {"192.0.2.53", "192.0.2.2"}
    assert set(ask_all(server)) == {"192.0.2.2"}


def test_all_transports_choose_alike(serve: Serve) -> None:
    """By the client's address alone, for each query on a connection that was there before."""
    tls = "tls {dir}/server.pem {dir}/server.key"

    def text(number: int) -> str:
        return corefile(number).replace(".:{port}", ".:{port} tls://.:{port4} https://.:{port5}").replace("cache 30", f"cache 30\n    {tls}")

    server = serve(text(1), prepare=write_certificates)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    names = [client(number) for number in range(24)]

    def over_https(connection: http.client.HTTPSConnection, request: dns.message.Message) -> str:
        connection.request("POST", "/dns-query", request.to_wire(), {"Content-Type": "application/dns-message"})
        return told(dns.message.from_wire(connection.getresponse().read()))

    web = [http.client.HTTPSConnection("127.0.0.1", server.ports["port5"], timeout=REPLY, source_address=(name, 0), context=context) for name in names]
    encrypted = [context.wrap_socket(socket.create_connection(("127.0.0.1", server.ports["port4"]), REPLY, (name, 0))) for name in names]

    def asked() -> list[set[str]]:
        found = []
        for name, connection, stream in zip(names, web, encrypted, strict=True):
            request = dns.message.make_query("a.example.org.", "A")
            wire = request.to_wire()
            stream.sendall(struct.pack("!H", len(wire)) + wire)
            over_tls = told(dns.message.from_wire(read(stream, struct.unpack("!H", read(stream, 2))[0])))
            plain = [told(server.query("a.example.org.", tcp=tcp, source=name)) for tcp in (False, True)]
            found.append({*plain, over_tls, over_https(connection, request)})
        return found

    assert asked() == [{"192.0.2.1"}] * len(names)
    begin(server, text(2))
    found = asked()
    assert all(len(each) == 1 for each in found), found
    assert set.union(*found) == {"192.0.2.1", "192.0.2.2"}
    assert run(server, "promote").returncode == 0
    assert asked() == [{"192.0.2.2"}] * len(names)
    for each in (*web, *encrypted):
        each.close()


@contextmanager
def calls(port: int, source: str) -> Iterator[Callable[[str], dns.message.Message]]:
    """Calls of gRPC on one connection from an address: its library cannot choose one, so that a process in between does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def carry() -> None:
            near = listener.accept()[0]
            with near, socket.create_connection(("127.0.0.1", port), REPLY, (source, 0)) as far:
                while not over.is_set():
                    for one in select.select([near, far], [], [], 0.05)[0]:
                        octets = one.recv(65536)
                        if not octets:
                            return
                        (far if one is near else near).sendall(octets)

        thread = threading.Thread(target=carry)
        thread.start()
        try:
            with grpc_client.client(listener.getsockname()[1]) as made:
                yield made.query
        finally:
            over.set()
            thread.join()


def test_quic_http3_and_grpc_choose_alike(serve: Serve) -> None:
    """As all_transports: what UDP says to an address is what these say, on connections that were there before."""
    tls = "tls {dir}/server.pem {dir}/server.key"

    def text(number: int) -> str:
        keys = ".:{port} quic://.:{port4} https3://.:{port5} grpc://.:{port6}"
        # TLS of the block would be gRPC's as well: a block of its own has the clear one.
        first = corefile(number).replace(".:{port}", keys.rpartition(" ")[0]).replace("cache 30", f"cache 30\n    {tls}")
        return first + f"{keys.rpartition(' ')[2]} {{\n    bind 127.0.0.1\n    {ANSWER.replace('NUMBER', str(number))}\n}}\n"

    server = serve(text(1), prepare=write_certificates)
    names = [client(number) for number in range(24)]
    question = quic.query("a.example.org.")
    with ExitStack() as stack:
        streams = [stack.enter_context(quic.Client(server.ports["port4"], source=name)) for name in names]
        web = [stack.enter_context(quic.WebClient(server.ports["port5"], source=name)) for name in names]
        channels = [stack.enter_context(calls(server.ports["port6"], name)) for name in names]

        def asked() -> list[set[str]]:
            found = []
            for name, stream, page, call in zip(names, streams, web, channels, strict=True):
                over_web = dns.message.from_wire(page.fetch(body=question, fields=[(b"content-type", b"application/dns-message")]).body)
                found.append({told(server.query("a.example.org.", source=name)), told(stream.ask(question)), told(over_web), told(call("a.example.org."))})
            return found

        assert asked() == [{"192.0.2.1"}] * len(names)
        begin(server, text(2))
        found = asked()
        assert all(len(each) == 1 for each in found), found
        assert set.union(*found) == {"192.0.2.1", "192.0.2.2"}
        assert run(server, "promote").returncode == 0
        assert asked() == [{"192.0.2.2"}] * len(names)
        # One that fails is rolled back, and what its clients ask over these counts.
        start = len(server.log())
        begin(server, text(3).replace(ANSWER.replace("NUMBER", "3"), "template IN A {\n        rcode SERVFAIL\n    }"))
        asked()
        asked()
        server.wait_log("Canary rolled back: servfail>5%", start=start)
        assert asked() == [{"192.0.2.2"}] * len(names)
