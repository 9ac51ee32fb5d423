"""forward under attack and on bad networks: the rows of the robustness list that concern it, each by name."""

from __future__ import annotations

import collections
import itertools
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rrset
import dns.update
import pytest

from fastdns.testing import Upstream
from tests.plugins.forward.test_forward import address, burst, corefile, reply
from tests.server import Server, free_port
from tests.waiting import LIMIT, until

Serve = Callable[..., Server]
Send = Callable[[bytes], None]


@contextmanager
def raw_upstream(answer: Callable[[bytes, Send, tuple[str, int]], None]) -> Iterator[str]:
    """An upstream that sends whatever it likes: ``answer(octets, send, client)``. Gives its address."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(0.2)
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            try:
                octets, client = sock.recvfrom(65535)
            except TimeoutError:
                continue
            answer(octets, lambda packet, client=client: void(sock.sendto(packet, client)), client)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{sock.getsockname()[1]}"
    finally:
        over.set()
        thread.join()
        sock.close()


def void(_: object) -> None:
    pass


def right(octets: bytes, rdata: str = "192.0.2.1") -> bytes:
    return reply(dns.message.from_wire(octets), f"@ 5 A {rdata}").to_wire()


def changed(packet: bytes, offset: int, value: int) -> bytes:
    return packet[:offset] + bytes([value]) + packet[offset + 1 :]


#: As long as a query may wait: what ends the wait before that is not the machine's slowness.
PATIENT = "read_timeout 12s"

JUNK: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda packet: b"",
    "short": lambda packet: packet[:11],
    "header only": lambda packet: packet[:12],
    "wrong id": lambda packet: changed(packet, 1, packet[1] ^ 1),
    "a query": lambda packet: changed(packet, 2, packet[2] & 0x7F),
    "no question": lambda packet: packet[:4] + b"\0\0" + packet[6:],
    "two questions": lambda packet: changed(packet, 5, 2),
    "another name": lambda packet: changed(packet, 14, packet[14] ^ 1),
    "another type": lambda packet: changed(packet, 12 + 10 + 1, 28),
    "another class": lambda packet: changed(packet, 12 + 10 + 3, 3),
    "another opcode": lambda packet: changed(packet, 2, packet[2] | 0x20),
    "cut short": lambda packet: packet[:-1],
    "a length that lies": lambda packet: changed(packet, len(packet) - 5, 200),
    "a pointer to itself": lambda packet: packet[:26] + b"\xc0\x1a" + packet[28:],
    "servfail of another": lambda packet: changed(changed(packet, 3, 2), 0, packet[0] ^ 0x55),
}


@pytest.mark.parametrize("kind", JUNK)
def test_cve_2023_28452_tudoor_junk_does_not_end_the_wait(serve: Serve, kind: str) -> None:
    def answer(octets: bytes, send: Send, client: object) -> None:
        for _ in range(3):
            send(JUNK[kind](right(octets, "203.0.113.6")))
        time.sleep(0.02)
        send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {PATIENT}", up))
        assert server.answers("abc.test.") == ["192.0.2.1"]


def test_poisoning_by_a_flood_of_guesses(serve: Serve) -> None:
    """Every id but the right one, from the right address and port: none is taken, and the reply that comes then is."""

    def answer(octets: bytes, send: Send, client: object) -> None:
        packet, own = right(octets, "203.0.113.6"), int.from_bytes(octets[:2], "big")
        for number in range(0, 65536, 7):
            if number != own:
                send(number.to_bytes(2, "big") + packet[2:])
        # The flood may have filled the socket, and then the reply would be lost.
        for _ in range(5):
            time.sleep(0.05)
            send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {PATIENT}", up))
        for i in range(3):
            assert server.answers(f"p{i}.test.") == ["192.0.2.1"]


def test_poisoning_from_another_address(serve: Serve) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.9", 0))

        def answer(octets: bytes, send: Send, client: tuple[str, int]) -> None:
            stranger.sendto(right(octets, "203.0.113.6"), client)
            time.sleep(0.05)
            send(right(octets))

        with raw_upstream(answer) as up:
            assert serve(corefile(to=up)).answers("a.test.") == ["192.0.2.1"]


@pytest.mark.timing
def test_cve_2019_19794_ids_and_ports_cannot_be_predicted(serve: Serve) -> None:
    ids: list[int] = []
    ports: list[int] = []
    seen: set[bytes] = set()

    def answer(octets: bytes, send: Send, client: tuple[str, int]) -> None:
        if octets not in seen:  # the same again where the machine let us be late
            seen.add(octets)
            ids.append(int.from_bytes(octets[:2], "big"))
            ports.append(client[1])
        send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up))
        for start in range(0, 8000, 200):
            assert burst(server, [f"{i}.test." for i in range(start, start + 200)]).count("NOERROR") == 200
    assert len(ids) == 8000
    # 256 bins by the high octet, and by the low: chi square of 255 degrees, 330 has a probability of 0.1 %.
    for part in (lambda number: number >> 8, lambda number: number & 255):
        count = collections.Counter(map(part, ids))
        assert sum((count[i] - 31.25) ** 2 / 31.25 for i in range(256)) < 360
    # One after another: the differences are as even as the ids.
    steps = collections.Counter((b - a) % 65536 >> 12 for a, b in itertools.pairwise(ids))
    assert sum((steps[i] - 500) ** 2 / 500 for i in range(16)) < 50
    uses = collections.Counter(ports)
    assert len(uses) >= 450, "16 queries a port"
    steps = collections.Counter(b > a for a, b in itertools.pairwise(uses))
    assert abs(steps[True] - steps[False]) < 150, "in no order"


@pytest.mark.timing
def test_cve_2023_30464_birthday_equal_questions_are_asked_once(serve: Serve) -> None:
    seen: set[bytes] = set()
    held: list[Callable[[], None]] = []

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen.add(octets)
        held.append(lambda: send(right(octets)))

    with raw_upstream(answer) as up, ThreadPoolExecutor(1) as pool:
        server = serve(corefile(PATIENT, up, before="prometheus 127.0.0.1:{port2}"), "-workers", "2")
        asking = pool.submit(burst, server, ["Same.test.", "sAME.test."] * 250)
        until(lambda: server.metric(server.ports["port2"], "fastdns_parked_queries") == 500, "that all wait")
        for send in held:
            send()
        assert asking.result() == ["NOERROR"] * 500
    assert 1 <= len(seen) <= 2, "one a worker"


def test_merged_questions_keep_their_letters(serve: Serve) -> None:
    def answer(octets: bytes, send: Send, client: object) -> None:
        time.sleep(0.2)
        send(right(octets))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        got: list[dns.message.Message] = []
        names = ["one.TEST.", "ONE.test.", "one.test."]
        threads = [threading.Thread(target=lambda name=name: got.append(server.query(name))) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(message.answer[0].name.to_text() for message in got) == sorted(names)
    assert all(message.question[0].name.to_text() == message.answer[0].name.to_text() for message in got)


def test_different_questions_are_not_merged(serve: Serve) -> None:
    """Whatever else differs in the message makes another question: flags, EDNS, options."""
    seen: dict[bytes, Send] = {}

    def answer(octets: bytes, send: Send, client: object) -> None:
        seen[octets] = send
        if len(seen) >= 5:
            for packet, answer_it in seen.items():
                answer_it(right(packet))

    with raw_upstream(answer) as up:
        server = serve(corefile(PATIENT, up), "-workers", "1")
        queries = [dns.message.make_query("a.test.", "A") for _ in range(2)]
        queries[1].flags |= dns.flags.CD
        queries += [
            dns.message.make_query("a.test.", "A", use_edns=0, payload=size, want_dnssec=do) for size, do in ((1232, False), (1232, True), (4096, True))
        ]
        threads = [threading.Thread(target=server.send, args=(query,)) for query in queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seen) == 5


@pytest.mark.parametrize("tcp", [False, True])
def test_cve_2026_86003_update_is_not_forwarded(serve: Serve, tcp: bool) -> None:
    with Upstream() as upstream:
        server = serve(corefile(to=upstream.address))
        update = dns.update.UpdateMessage("test.")
        update.add("a", 60, "A", "192.0.2.1")
        assert server.send(update, tcp=tcp).rcode() == dns.rcode.NOTIMP
        for opcode in (dns.opcode.IQUERY, dns.opcode.STATUS):
            query = dns.message.make_query("a.test.", "A")
            query.set_opcode(opcode)
            assert server.send(query, tcp=tcp).rcode() == dns.rcode.NOTIMP
        assert not upstream.seen


def test_fan_out_a_dead_upstream_gets_at_most_two_packets_a_query(serve: Serve) -> None:
    seen: list[bytes] = []
    with raw_upstream(lambda octets, send, client: seen.append(octets)) as up:
        server = serve(corefile("read_timeout 1s\n max_fails 0", up))
        assert burst(server, [f"{i}.test." for i in range(300)]) == ["SERVFAIL"] * 300
    assert 300 <= len(seen) <= 600


def test_r8_silent_upstream_is_skipped_within_a_second(serve: Serve) -> None:
    """What is asked a second after the first query that it owes a reply to is not sent to it at all: that is seen however slow this machine is."""
    seen: list[bytes] = []
    with raw_upstream(lambda octets, send, client: seen.append(octets)) as silent, Upstream(address("192.0.2.2")) as other:
        server = serve(corefile(f"policy sequential\n {PATIENT}", f"{silent} {other.address}"), "-workers", "1")
        with pytest.raises(dns.exception.Timeout):
            server.query("first.test.", timeout=1.0)
        for number in range(20):
            assert server.answers(f"second{number}.test.") == ["192.0.2.2"]
        server.process.kill()  # which does not wait for the first
    assert any(b"\x05first" in octets for octets in seen)
    assert not [octets for octets in seen if b"second" in octets]


def test_memory_is_bounded_under_a_flood_against_a_dead_upstream(serve: Serve) -> None:
    with raw_upstream(lambda octets, send, client: None) as silent, Upstream() as other:
        server = serve(
            f"dead.test:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:{{port2}}\n forward . {silent}\n}}\n"
            f"live.test:{{port}} {{\n bind 127.0.0.1\n forward . {other.address}\n}}\n"
        )
        assert server.answers("a.live.test.") == ["192.0.2.53"]
        evicted = 0.0
        codes: collections.Counter[int] = collections.Counter()
        numbers = itertools.count()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(("127.0.0.1", server.port))
            client.setblocking(False)
            # What a slow machine drops because the server does not get round to it says nothing.
            end = time.monotonic() + LIMIT
            while evicted < 30000 and time.monotonic() < end:
                for number in itertools.islice(numbers, 5000):
                    client.send(dns_query(number))
                    if number % 50 == 0:
                        time.sleep(0.001)
                        try:
                            while True:
                                codes[client.recv(512)[3] & 15] += 1
                        except BlockingIOError:
                            pass
                evicted = server.metric(server.ports["port2"], "fastdns_evicted_queries_total")
        assert evicted >= 30000
        assert set(codes) == {2}, "the oldest get SERVFAIL when others come"
        assert server.answers("b.live.test.") == ["192.0.2.53"]
        assert server.memory() < 90 << 20 or os.environ.get("FASTDNS_SANITIZED"), "the sanitizers keep memory of their own"
        server.process.kill()  # which does not wait for those that are left


def dns_query(number: int) -> bytes:
    label = b"r%07d" % number
    return (number & 0xFFFF).to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0" + bytes([len(label)]) + label + b"\4dead\4test\0\0\1\0\1"


def test_mutated_replies_never_harm(serve: Serve) -> None:
    """Replies with the right id and question and a broken rest, many before each true one."""
    luck = random.Random(20)

    def answer(octets: bytes, send: Send, client: object) -> None:
        query = dns.message.from_wire(octets)
        made = reply(query, "@ 5 CNAME b.test.", "b.test. 5 A 192.0.2.1", "b.test. 5 MX 1 mail.test.", "b.test. 5 SRV 1 2 3 srv.test.")
        made.authority.append(dns.rrset.from_text("test.", 9, "IN", "SOA", "ns.test. admin.test. 1 2 3 4 5"))
        made.use_edns(0, payload=1232)
        packet = made.to_wire()
        question = 12 + len(query.question[0].name.to_wire()) + 4
        for _ in range(30):
            broken = bytearray(packet)
            for _ in range(luck.randrange(1, 6)):
                broken[luck.randrange(6, 12) if luck.random() < 0.2 else luck.randrange(question, len(packet))] = luck.randrange(256)
            send(bytes(broken[: luck.randrange(question, len(packet) + 1)]) if luck.random() < 0.3 else bytes(broken))
        send(packet)

    with raw_upstream(answer) as up:
        server = serve(corefile(f"max_connect_attempts 1\n {PATIENT}", up))
        for _ in range(10):
            codes = burst(server, [f"m{luck.randrange(10**9)}.test." for _ in range(30)])
            assert "lost" not in codes
        assert server.process.poll() is None


def test_descriptors_run_out(serve: Serve) -> None:
    """R12: with no descriptor left the sockets that are there go on asking."""
    with Upstream() as upstream:
        server = serve(corefile(to=upstream.address))
        for i in range(100):
            assert server.answers(f"{i}.test.") == ["192.0.2.53"]
        used = max(map(int, os.listdir(f"/proc/{server.process.pid}/fd"))) + 1
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used, used))
        time.sleep(1.1)
        for i in range(100):
            assert server.answers(f"later{i}.test.") == ["192.0.2.53"]


def test_sad_dns_icmp_errors_end_only_the_question_they_quote(serve: Serve) -> None:
    """Sixteen sockets carry forty questions; the errors that others bring about on the same sockets leave them alone."""
    upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    place = ("127.0.0.1", free_port())
    upstream.bind(place)
    upstream.settimeout(LIMIT)
    server = serve(corefile("max_connect_attempts 1\n max_fails 0\n read_timeout 12s", f"127.0.0.1:{place[1]}"), "-workers", "1")
    codes: list[str] = []
    asker = threading.Thread(target=lambda: codes.extend(burst(server, [f"{i}.test." for i in range(40)])))
    asker.start()
    held = set()
    while len(held) < 40:
        held.add(upstream.recvfrom(512))
    upstream.close()
    assert burst(server, [f"refused{i}.test." for i in range(40)]) == ["SERVFAIL"] * 40
    assert not codes
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(place)
        for octets, client in held:
            again.sendto(right(octets), client)
        asker.join()
    assert codes == ["NOERROR"] * 40
