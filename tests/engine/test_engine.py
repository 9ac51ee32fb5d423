"""The engine by itself: what it does when the kernel refuses."""

from __future__ import annotations

import gc
import os
import socket
import sys

import dns.message
import dns.query
import pytest

from fastdns.engine.chains import Chains, ServerSpec, ZoneSpec
from fastdns.engine.engine import Engine
from fastdns.engine.listener import Listener
from fastdns.plugins.whoami._whoami import Whoami


def test_a_configuration_that_cannot_be_published_changes_nothing() -> None:
    engine = Engine(2)
    listeners = [engine.bind("127.0.0.1", 0) for _ in range(2)]
    broken = listeners[1].sockets[-1]
    number = broken.fileno()
    os.close(broken.detach())  # epoll will not have it
    before = engine.chains

    def server(listener: Listener) -> ServerSpec:
        return ServerSpec(f"dns://127.0.0.1:{listener.port}", [listener], [ZoneSpec(".", [Whoami("whoami")])])

    with pytest.raises(OSError, match="Bad file descriptor"):
        engine.publish([server(listener) for listener in listeners])
    assert engine.chains is before
    assert not any(listener.watched for listener in listeners)
    assert number not in listeners[0].filenos()
    engine.publish([server(listeners[0])])
    assert listeners[0].watched
    for listener in listeners:
        listener.close()


def test_a_configuration_gives_its_memory_back_even_in_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    chains = Chains([])
    chains.handlers.append(chains)  # type: ignore[arg-type]
    del chains
    gc.collect()
    assert not unraisable


def test_a_port_of_the_kernels_choice_is_free_in_both_protocols() -> None:
    taken: list[socket.socket] = []

    class Unlucky(Listener):
        """Somebody else has the first chosen port in UDP."""

        def _bound(self, which: int, family: int, host: str) -> socket.socket:
            if which == 1 and not taken:
                taken.append(socket.socket(family, socket.SOCK_DGRAM))
                taken[0].bind((host, self.port))
            return super()._bound(which, family, host)

    workers = Engine(1).threads
    listener = Unlucky(workers, lambda listener: None, 0, 0, "127.0.0.1", 0, [], 1)
    assert taken[0].getsockname()[1] != listener.port
    assert {sock.getsockname() for sock in listener.sockets} == {("127.0.0.1", listener.port)}
    assert [sock.type for sock in listener.sockets] == [socket.SOCK_STREAM, socket.SOCK_DGRAM]
    listener.close()
    with pytest.raises(OSError, match="Address already in use"):
        Listener(workers, lambda listener: None, 0, 0, "127.0.0.1", taken[0].getsockname()[1], [], 1)
    taken[0].close()


def test_each_worker_has_a_socket_of_each_transport() -> None:
    listener = Engine(2).bind("127.0.0.1", 0, sockets=3)
    assert [sock.type for sock in listener.sockets] == [socket.SOCK_STREAM] * 3 + [socket.SOCK_DGRAM] * 3
    taken = Engine(2).bind("127.0.0.1", listener.port, reuse=listener.filenos(), sockets=3)
    assert [os.fstat(fd).st_ino for fd in taken.filenos()] == [os.fstat(fd).st_ino for fd in listener.filenos()]
    taken.close()
    listener.close()


def test_the_engine_serves_both_transports_and_closes_their_sockets() -> None:
    engine = Engine(1)
    listener = engine.bind("127.0.0.1", 0)
    address = ("127.0.0.1", listener.port)
    engine.publish([ServerSpec(f"dns://127.0.0.1:{listener.port}", [listener], [ZoneSpec(".", [Whoami("whoami")])])])
    engine.start()
    query = dns.message.make_query("example.org.", "A")
    assert dns.query.udp(query, "127.0.0.1", port=listener.port, timeout=5).additional
    with socket.create_connection(address, 5) as connection:
        dns.query.send_tcp(connection, query)
        assert dns.query.receive_tcp(connection)[0].additional
        assert engine.statistics()["connections"] == 1
        assert engine.drain(5)
        assert connection.recv(1) == b"", "drain ends connections"
    assert engine.statistics() | {"slots": 0, "slots_most": 0, "connections_most": 0} == dict.fromkeys(engine.statistics(), 0)
    engine.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 5)
