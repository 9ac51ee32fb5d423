"""The engine by itself: what it does when the kernel refuses."""

from __future__ import annotations

import gc
import os
import socket
import sys

import pytest

from fastdns.engine.chains import Chains, ServerSpec, ZoneSpec
from fastdns.engine.loop import Engine, Listener
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

        def _bound(self, family: int, kind: int, host: str) -> socket.socket:
            if kind == socket.SOCK_DGRAM and not taken:
                taken.append(socket.socket(family, kind))
                taken[0].bind((host, self.port))
            return super()._bound(family, kind, host)

    listener = Unlucky(Engine(1), 0, 0, "127.0.0.1", 0, [], 1)
    assert taken[0].getsockname()[1] != listener.port
    assert {sock.getsockname() for sock in listener.sockets} == {("127.0.0.1", listener.port)}
    assert {sock.type for sock in listener.sockets} == {socket.SOCK_STREAM, socket.SOCK_DGRAM}
    listener.close()
    with pytest.raises(OSError, match="Address already in use"):
        Listener(Engine(1), 0, 0, "127.0.0.1", taken[0].getsockname()[1], [], 1)
    taken[0].close()
