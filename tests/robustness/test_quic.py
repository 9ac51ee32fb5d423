"""What attacks DNS over QUIC: streams that stall, streams and connections without number, forged addresses; and reloads under load."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from random import Random

import dns.edns
import dns.message
import dns.tsigkeyring
import pytest
from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.tls import Epoch

from fastdns.bench.clients.quicgo import QuicGo
from tests.certificates import write_certificates
from tests.quic import Client, Closed, WebClient, query
from tests.robustness.test_udp import POLICY
from tests.server import Server
from tests.waiting import LIMIT, REPLY

COREFILE = """
quic://.:{port} {
    bind 127.0.0.1
    tls server.pem server.key
    hosts {
        192.0.2.1 a.test
    }
}
"""
QUESTION = query("a.test.")
FRAMED = len(QUESTION).to_bytes(2, "big") + QUESTION
KEY = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
#: Of handshakes under way, of all workers; see fastdns/engine/quic/endpoint.pxd.
RETRY_ABOVE = 32


def with_directive(text: str) -> str:
    return COREFILE.replace("    hosts", f"    {text}\n    hosts")


@pytest.mark.parametrize("octets", [FRAMED[:1], FRAMED[:2], FRAMED[:-1], b""])
def test_CVE_2026_32934_stalled_streams_hold_no_worker(serve: Callable[..., Server], octets: bytes) -> None:
    """Not even with a single worker, and not for the read time."""
    server = serve(with_directive("quic {\n worker_pool_size 1\n }\n timeouts {\n read 60s\n idle 1h\n }"), prepare=write_certificates)
    with Client(server.port) as stalling, Client(server.port) as other:
        for _ in range(100):
            stalling.write(stalling.open(), octets)
        for _ in range(3):
            assert other.ask(QUESTION).answer
            assert stalling.ask(QUESTION).answer


def test_a_stalled_stream_ends_its_connection(serve: Callable[..., Server]) -> None:
    server = serve(with_directive("timeouts {\n read 1s\n idle 1h\n }"), prepare=write_certificates)
    with Client(server.port) as client:
        begun = time.monotonic()
        client.write(client.open(), FRAMED[:1])

        def ask_on() -> None:  # other queries do not prolong it
            while True:
                assert client.ask(QUESTION).answer

        with pytest.raises(Closed) as caught:
            ask_on()
        assert caught.value.code == 2
        assert time.monotonic() - begun >= 0.9


def test_workers_take_turns(serve: Callable[..., Server]) -> None:
    """Queries above the size of the pool wait, and those whose clients go meanwhile are passed over."""
    server = serve(
        "quic://.:{port} {\n bind 127.0.0.1\n tls server.pem server.key\n"
        " quic {\n worker_pool_size 2\n }\n erratic {\n delay 1 50ms\n drop 0\n truncate 0\n }\n}",
        prepare=write_certificates,
    )
    with Client(server.port) as client:
        with Client(server.port) as going:
            for _ in range(20):
                going.begin(QUESTION)
        streams = [client.begin(QUESTION) for _ in range(20)]
        assert [client.reply(stream).rcode() for stream in streams] == [0] * 20


def test_streams_above_the_limit_end_the_connection(serve: Callable[..., Server]) -> None:
    server = serve(with_directive("quic {\n max_streams 5\n }"), prepare=write_certificates)
    with Client(server.port) as client:
        assert client.quic._remote_max_streams_bidi == 5
        for _ in range(40):  # each that ends makes room for another
            assert client.ask(QUESTION).answer
        client.quic._remote_max_streams_bidi = 1000
        client.quic._local_next_stream_id_bidi += 20
        client.write(client.open(), FRAMED, True)
        assert client.wait_closed().code == 4  # STREAM_LIMIT_ERROR


def test_idle_connections_make_room(serve: Callable[..., Server]) -> None:
    """Of as many as there may be, the one that is idle longest ends for a new one."""
    server = serve(with_directive("timeouts {\n idle 1h\n }"), prepare=write_certificates)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port, idle_timeout=3600)) for _ in range(200)]
        time.sleep(1.1)  # idle for less counts as in use
        for client in clients[100:]:
            assert client.ask(QUESTION).answer
        with Client(server.port) as next_one:
            assert next_one.ask(QUESTION).answer
        assert all(client.ask(QUESTION).answer for client in clients[100::20])
        closed = [client for client in clients[:100] if not is_open(client)]
        assert len(closed) == 1


def is_open(client: Client) -> bool:
    try:
        return bool(client.ask(QUESTION).answer)
    except Closed as closed:
        if (closed.code, closed.reason) != (0, "idle"):
            raise
        return False


@pytest.mark.memory
def test_CVE_2025_47950_an_octet_on_each_of_many_streams(serve: Callable[..., Server]) -> None:
    """10,000 streams of 100 connections cost less than 50 MB."""
    server = serve(with_directive("timeouts {\n read 1h\n idle 1h\n }"), prepare=write_certificates)
    with ExitStack() as stack:
        with Client(server.port) as first:
            first.ask(QUESTION)
        before = server.memory()
        clients = [stack.enter_context(Client(server.port)) for _ in range(100)]
        for client in clients:
            for _ in range(100):
                client.quic.send_stream_data(client.open(), FRAMED[:1])
            client.push()
            assert client.ask(QUESTION).answer
        assert server.memory() - before < 50 << 20


@pytest.mark.memory
def test_memory_of_a_connection_is_bounded(serve: Callable[..., Server]) -> None:
    """Queries that are not complete fill the window of their connection, and no more, however much was sent before."""
    server = serve(with_directive("timeouts {\n read 1h\n idle 1h\n }"), prepare=write_certificates)
    with Client(server.port) as client:
        for _ in range(200):
            client.ask(query("a.test.", use_edns=0, options=[dns.edns.GenericOption(12, bytes(4000))]))  # earns no larger window
        client.ask(QUESTION)
        before = server.memory()
        for _ in range(200):
            client.quic.send_stream_data(client.open(), b"\xff\xff" + bytes(60000))
        begun = time.monotonic()
        while time.monotonic() < begun + 1:
            try:
                client.pump(lambda: False, 0.1)
            except AssertionError:
                pass
        assert server.memory() - before < 4 << 20
        sent = sum(stream.sender.highest_offset for stream in client.quic._streams.values())
        assert 64 << 10 < sent < 256 << 10


@pytest.mark.parametrize("scheme", ["quic", "https3"])
def test_replies_that_are_not_taken(serve: Callable[..., Server], scheme: str) -> None:
    """A client that lets us send nothing, and goes on to ask, is closed before it costs much."""
    corefile = COREFILE.replace("quic://", f"{scheme}://").replace("hosts {", "hosts {\n" + "".join(f" 192.0.2.{i} big.test\n" for i in range(250)))
    server = serve(corefile, prepare=write_certificates)
    large = query("big.test.", use_edns=0, payload=4096)
    with Client(server.port, max_stream_data=100) if scheme == "quic" else WebClient(server.port, max_stream_data=100) as client:
        client.quic._write_stream_limits = lambda **_: None  # grants no more

        def ask_on() -> None:
            for _ in range(200):
                if scheme == "quic":
                    client.begin(large)
                else:
                    client.request(body=large)
                client.pump(lambda: client.quic._loss.bytes_in_flight == 0)
            client.pump(lambda: False)

        with pytest.raises(Closed) as caught:
            ask_on()
        assert caught.value.code == (4 if scheme == "quic" else 0x107)


def first_datagram(port: int) -> bytes:
    """As a client begins, from nowhere."""
    client = Client(port, wait=False)
    client.socket.close()
    octets: bytes = client.quic.datagrams_to_send(now=time.monotonic())[0][0]
    return octets


def test_forged_addresses_are_asked_to_prove_themselves(serve: Callable[..., Server]) -> None:
    """Many handshakes that do not go on: replies stay within three times what came, clients have to show their address, and are served still."""
    server = serve(COREFILE, prepare=write_certificates)
    with ExitStack() as stack:
        forged = []
        for _ in range(3 * RETRY_ABOVE):
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.connect(("127.0.0.1", server.port))
            sock.settimeout(REPLY)
            datagram = first_datagram(server.port)
            sock.send(datagram)
            first = sock.recv(65535)
            forged.append((sock, len(datagram), len(first)))
        assert first[0] & 0xF0 == 0xF0  # Retry, to the last one
        with Client(server.port) as honest:
            assert honest.quic._retry_count == 1
            assert honest.ask(QUESTION).answer
        time.sleep(1)  # what is sent again counts, too
        for sock, size, sent in forged:
            sock.setblocking(False)
            while True:
                try:
                    sent += len(sock.recv(65535))
                except BlockingIOError:
                    break
            assert sent <= 3 * size


@pytest.mark.memory
def test_a_flood_of_forged_beginnings(serve: Callable[..., Server]) -> None:
    """Handshakes from everywhere cost little memory, and clients that show their address are served meanwhile."""
    server = serve(COREFILE, prepare=write_certificates)
    with Client(server.port) as client:
        assert client.ask(QUESTION).answer
    before = server.memory()
    datagrams = [first_datagram(server.port) for _ in range(500)]
    for number, datagram in enumerate(datagrams):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((f"127.0.{number % 250 + 1}.{number // 250 + 1}", 0))
            sock.sendto(datagram, ("127.0.0.1", server.port))
        if number % 100 == 50:
            with Client(server.port) as honest:
                assert honest.ask(QUESTION).answer
    assert server.memory() - before < 16 << 20


def test_mutated_packets_of_a_connection(serve: Callable[..., Server]) -> None:
    """Whatever is done to its datagrams on the way, the connection goes on."""
    server = serve(COREFILE, prepare=write_certificates)
    with Client(server.port) as client:
        send = client.socket.send
        for _ in range(100):
            stream = client.open()
            client.quic.send_stream_data(stream, FRAMED, True)
            for octets, _ in client.quic.datagrams_to_send(now=time.monotonic()):
                place = int.from_bytes(os.urandom(2), "big") % len(octets)
                send(octets[:place])
                send(octets[:place] + os.urandom(4) + octets[place + 4 :])
                send(octets)
                send(octets)
            assert client.reply(stream).answer
    assert "failed" not in server.log()


def varint(number: int) -> bytes:
    """RFC 9000 16."""
    size = next(i for i in range(4) if number < 1 << (8 << i) - 2)
    return (number | size << (8 << size) - 2).to_bytes(1 << size, "big")


def some_frame(random: Random) -> bytes:
    """A frame, or something like it."""
    if random.random() < 0.5:
        octets = random.choice([FRAMED, FRAMED[:1], FRAMED[5:], b"", random.randbytes(50)])
        stream, offset = random.choice([0, 0, 4, 8, 2, 6, 10, 1, 3, 400, 1020, 1024]), random.choice([0, 0, 0, 1, 5, 31, 65535, 98303, 130000])
        return bytes([0x0E | random.randrange(2)]) + varint(stream) + varint(offset) + varint(len(octets)) + octets
    numbers = [random.choice([0, 1, 4, 63, 255, 1024, 65535, 1 << 30, (1 << 62) - 1, random.getrandbits(14)]) for _ in range(random.randrange(5))]
    return varint(random.choice([*range(0x1F), 0x30, 0x31, 0x40])) + b"".join(map(varint, numbers)) + random.randbytes(random.choice([0, 8, 30]))


@pytest.mark.parametrize("scheme", ["quic", "https3"])
def test_frames_of_clients_that_mean_harm(serve: Callable[..., Server], scheme: str) -> None:
    """Connections may end by them; the server says nothing of its own defects, and serves the others."""
    server = serve(COREFILE.replace("quic://", f"{scheme}://"), prepare=write_certificates)
    random = Random(int(os.environ.get("FASTDNS_SEED", "1")))
    for _ in range(int(os.environ.get("FASTDNS_CONNECTIONS", "80"))):
        with Client(server.port, alpn="doq" if scheme == "quic" else "h3") as client:
            for _ in range(5):
                builder = QuicPacketBuilder(
                    host_cid=client.quic.host_cid,
                    peer_cid=client.quic._peer_cid.cid,
                    version=client.quic._version,
                    is_client=True,
                    max_datagram_size=1200,
                    packet_number=client.quic._packet_number,
                )
                builder.start_packet(QuicPacketType.ONE_RTT, client.quic._cryptos[Epoch.ONE_RTT])
                builder._buffer.push_bytes(b"".join(some_frame(random) for _ in range(random.randrange(1, 5)))[:1000])
                for octets in builder.flush()[0]:
                    client.socket.send(octets)
                client.quic._packet_number = builder.packet_number
    if scheme == "quic":
        with Client(server.port) as client:
            assert client.ask(QUESTION).answer
    else:
        with WebClient(server.port) as web:
            assert web.fetch(body=QUESTION).status == 200
    assert "failed" not in server.log()


@pytest.mark.parametrize("scheme", ["quic", "https3"])
def test_CVE_2026_86003_what_is_accepted_is_the_same_as_over_udp(serve: Callable[..., Server], scheme: str) -> None:
    """What UDP does not answer, or only with an error of its own, closes a connection of DoQ and is 400 for DoH3."""
    server = serve(COREFILE.replace("quic://", f"{scheme}://"), prepare=write_certificates)
    for octets, wanted in POLICY:
        message = b"\0\0" + octets[2:] if len(octets) >= 2 else octets
        is_accepted = wanted is not None and wanted[0] == 0
        if scheme == "https3":
            with WebClient(server.port) as web:
                assert web.fetch(body=message).status == (200 if is_accepted else 400), octets
            continue
        with Client(server.port) as client:
            stream = client.begin(message)
            if is_accepted:
                assert client.reply(stream).id == 0, octets
            else:
                assert client.wait_closed().code == 2, octets


@pytest.mark.parametrize("scheme", ["quic", "https3"])
@pytest.mark.parametrize(("key", "rcode"), [(KEY, 0), ("AAAA" + KEY[4:], 9)])
def test_CVE_2026_33190_signatures_are_verified(serve: Callable[..., Server], scheme: str, key: str, rcode: int) -> None:
    corefile = COREFILE.replace("quic://", f"{scheme}://").replace("    hosts", "    tsig {\n secret key. " + KEY + "\n require all\n }\n    hosts")
    server = serve(corefile, prepare=write_certificates)
    signed = dns.message.make_query("a.test.", "A", id=0)
    signed.use_tsig(dns.tsigkeyring.from_text({"key.": key}), "key.")
    if scheme == "https3":
        with WebClient(server.port) as web:
            replies = [web.fetch(body=octets).body for octets in (signed.to_wire(), QUESTION)]
    else:
        with Client(server.port) as client:
            streams = [client.begin(octets) for octets in (signed.to_wire(), QUESTION)]
            client.pump(lambda: client.ended.issuperset(streams))
            replies = [bytes(client.received[stream][2:]) for stream in streams]
    assert [reply[3] & 15 for reply in replies] == [rcode, 5]


class Relay(threading.Thread):
    """Datagrams to and from a server: some are lost, some change places, some come twice."""

    def __init__(self, port: int, part: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.random = Random(seed)
        self.part = part
        self.server = ("127.0.0.1", port)
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.port: int = self.front.getsockname()[1]
        self.ways: dict[tuple[str, int], socket.socket] = {}
        self.clients: dict[int, tuple[str, int]] = {}
        self.held: list[tuple[socket.socket, bytes, tuple[str, int]]] = []
        self.running = True
        self.lost = 0

    def run(self) -> None:
        while self.running:
            for sock in select.select([self.front, *self.ways.values()], [], [], 0.02)[0]:
                octets, address = sock.recvfrom(65535)
                if sock is self.front:
                    if address not in self.ways:
                        self.ways[address] = way = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        self.clients[way.fileno()] = address
                    self.carry(self.ways[address], octets, self.server)
                else:
                    self.carry(self.front, octets, self.clients[sock.fileno()])
            self.release()

    def carry(self, sock: socket.socket, octets: bytes, to: tuple[str, int]) -> None:
        chance = self.random.random() / self.part
        if chance < 1:
            self.lost += 1
        elif chance < 2:
            self.held.append((sock, octets, to))
        else:
            sock.sendto(octets, to)
            if chance < 3:
                sock.sendto(octets, to)
            self.release()

    def release(self) -> None:
        """What was held back comes behind what came later."""
        for sock, octets, to in self.held:
            sock.sendto(octets, to)
        self.held = []

    def __enter__(self) -> Relay:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running = False
        self.join()
        for sock in (self.front, *self.ways.values()):
            sock.close()


@pytest.mark.parametrize("scheme", ["quic", "https3"])
def test_a_path_that_loses_and_reorders(serve: Callable[..., Server], scheme: str) -> None:
    """5 % of all datagrams each way, those of handshakes too."""
    server = serve(COREFILE.replace("quic://", f"{scheme}://"), prepare=write_certificates)
    with Relay(server.port, 0.05, int(os.environ.get("FASTDNS_SEED", "1"))) as relay:
        for _ in range(12):
            with Client(relay.port) if scheme == "quic" else WebClient(relay.port) as client:
                for _ in range(3):
                    if isinstance(client, WebClient):
                        streams = [client.request(body=QUESTION) for _ in range(10)]
                        assert {client.response(stream, LIMIT).status for stream in streams} == {200}
                    else:
                        streams = [client.begin(QUESTION) for _ in range(10)]
                        assert all(client.reply(stream, LIMIT).answer for stream in streams)
        assert relay.lost > 10


@pytest.mark.parametrize("seconds", [1.2, 4.0])
def test_a_handshake_whose_beginning_is_lost(serve: Callable[..., Server], seconds: float) -> None:
    """What the server sends meanwhile does not arrive, and the client asks for no more than an acknowledgement: the server sends its flight again in time."""
    server = serve(COREFILE, prepare=write_certificates)
    with Client(server.port, wait=False) as client:
        receive = client.quic.receive_datagram
        client.quic.receive_datagram = lambda *_, **__: None
        client.push()
        with pytest.raises(AssertionError, match="nothing came"):
            client.pump(lambda: False, seconds)
        client.quic.receive_datagram = receive
        assert client.ask(QUESTION).answer


@pytest.mark.usefixtures("go")
@pytest.mark.parametrize("transport", ["doq", "doh3"])
@pytest.mark.parametrize("fresh", [False, True], ids=["lasting", "fresh"])
def test_quic_go_on_a_path_that_loses(serve: Callable[..., Server], transport: str, fresh: bool) -> None:
    """The same with the client that CoreDNS's own QUIC comes from, on two lasting connections, or on a new one for each query."""
    server = serve(COREFILE.replace("quic://", f"{'quic' if transport == 'doq' else 'https3'}://"), prepare=write_certificates)
    with Relay(server.port, 0.05, int(os.environ.get("FASTDNS_SEED", "1"))) as relay:
        command = [QuicGo().program, "-transport", transport, "-address", f"127.0.0.1:{relay.port}", "-query", QUESTION.hex()]
        command += ["-connections", "2", "-in-flight", "2" if fresh else "20", "-seconds", "2", "-timeout", f"{LIMIT:g}s"]
        done = subprocess.run([*command, *(["-new-connection"] if fresh else [])], capture_output=True, text=True, check=False, timeout=2 * LIMIT)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["answers"]
        assert (found["errors"], found["wrong"], found["statuses"]) == ({}, 0, {})
        assert list(found["rcodes"]) == ["0"]
        assert relay.lost


def test_lost_datagrams_are_sent_again(serve: Callable[..., Server]) -> None:
    """Each time later than before: with the idle time of 10 s five losses in a row would end the connection."""
    hosts = "hosts {\n ttl 5\n" + "".join(f" 192.0.2.{i} big.test\n" for i in range(250))
    server = serve(with_directive("timeouts {\n idle 1h\n }").replace("hosts {", hosts), prepare=write_certificates)
    large = query("big.test.", use_edns=0, payload=4096)
    with Client(server.port, idle_timeout=3600) as client:
        client.loss = 0.15
        for _ in range(5):
            streams = [client.begin(large if i % 8 == 0 else QUESTION) for i in range(40)]
            assert all(client.reply(stream, LIMIT).answer for stream in streams)


def test_reloads_under_load_lose_nothing(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server.port)) for _ in range(4)]
        asked = 0
        for number in range(2, 52):
            server.reload(COREFILE.replace("192.0.2.1", f"192.0.2.{number}"))
            seen = set()
            while str(number) not in seen:
                streams = [(client, client.begin(QUESTION)) for client in clients for _ in range(8)]
                asked += len(streams)
                seen = {str(client.reply(stream).answer[0][0]).rpartition(".")[2] for client, stream in streams}
                assert seen <= {str(number - 1), str(number)}
        assert asked >= 50 * 32
