"""Asks an engine of its own through a gate, and prints what came of it as JSON: run as a process, because an engine's workers stay."""

from __future__ import annotations

import asyncio
import json
import socket

import dns.message
import dns.opcode

from fastdns.engine.chains import ServerSpec, ZoneSpec
from fastdns.engine.engine import Engine
from fastdns.fronts import queries, thread
from fastdns.fronts.front import Front, Settings
from fastdns.plugins.erratic import setup as erratic
from fastdns.plugins.whoami._whoami import Whoami
from fastdns.setup import Controller

CLIENT, LOCAL = ("192.0.2.7", 4711), ("192.0.2.1", 853)


class Place:
    def __init__(self, index: int, generation: int) -> None:
        self.index, self.generation, self.watched = index, generation, True


class Still(Front):
    """A front end that hears nobody."""

    transport = queries.HTTPS

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Quic(Still):
    transport = queries.QUIC


def specification(place: Place) -> ServerSpec:
    """``drop.test`` is dropped, everything else is whoami's."""
    controller = Controller.of("erratic {\n drop 1\n}")
    erratic(controller)
    return ServerSpec("https://:443", [place], [ZoneSpec("drop.test.", controller.config.handlers), ZoneSpec(".", [Whoami("whoami")])])


async def outcome(front: Front, packet: bytes, client: tuple[object, ...] = CLIENT) -> str:
    try:
        reply = await front.gate.ask(packet, client, LOCAL)
    except queries.Rejected as rejected:
        return "rejected " + ("in silence" if rejected.reply is None else str(rejected.reply[3] & 15))
    if reply is None:
        return "nothing"
    message = dns.message.from_wire(reply)
    return f"{message.id} {len(message.additional)} {message.additional[0][0]}"


async def main(front: Front, quic: Front) -> dict[str, object]:
    query = dns.message.make_query("a.test.", "A", id=7)
    zero = dns.message.make_query("a.test.", "A", id=0)
    kept = dns.message.make_query("a.test.", "A", id=0, use_edns=0, options=[dns.edns.GenericOption(11, b"")])
    big = dns.message.make_query("a.test.", "A", id=9, use_edns=0, options=[dns.edns.GenericOption(65001, bytes(40000))])
    update = dns.message.make_query("a.test.", "A")
    update.set_opcode(dns.opcode.UPDATE)
    two = dns.message.make_query("a.test.", "A")
    two.question.append(two.question[0])
    found: dict[str, object] = {
        "query": await outcome(front, query.to_wire()),
        "six": await outcome(front, query.to_wire(), ("2001:db8::7", 53, 0, 0)),
        "mapped": await outcome(front, query.to_wire(), ("::ffff:192.0.2.9", 53, 0, 0)),
        "short": await outcome(front, b"\0\1"),
        "response": await outcome(front, dns.message.make_response(query).to_wire()),
        "update": await outcome(front, update.to_wire()),
        "two": await outcome(front, two.to_wire()),
        "drop": await outcome(front, dns.message.make_query("x.drop.test.", "A").to_wire()),
        "big": await outcome(front, big.to_wire(max_size=65535)),
        "quic": await outcome(quic, zero.to_wire()),
        "quic id": await outcome(quic, query.to_wire()),
        "quic keepalive": await outcome(quic, kept.to_wire()),
    }
    replies = await asyncio.gather(*(outcome(front, dns.message.make_query("a.test.", "A", id=i).to_wire()) for i in range(1000)))
    found["many"] = [reply.split()[0] for reply in replies] == [str(i) for i in range(1000)]
    front.gate.hold()
    kept = [front.gate.ask(dns.message.make_query("a.test.", "A", id=i).to_wire(), CLIENT, LOCAL) for i in range(100)]
    await asyncio.sleep(0.05)
    late = [future.done() for future in kept[96:]]  # those that make up no whole lot
    front.gate.release()
    found["held"] = [late, [message is not None and message[1] for message in await asyncio.gather(*kept)] == list(range(100))]
    gone = front.gate.ask(query.to_wire(), CLIENT, LOCAL)
    gone.cancel()
    flood = [front.gate.ask(query.to_wire(), CLIENT, LOCAL) for _ in range(9000)]
    crowded = [message[3] & 15 for message in await asyncio.gather(*flood) if message is not None]
    found["crowd"] = [crowded.count(0) + crowded.count(2), crowded.count(2) >= 800]
    while queries.requests():
        await asyncio.sleep(0.01)
    for wrong in (("nowhere", 1), ("192.0.2.300", 1)):
        try:
            front.gate.ask(query.to_wire(), wrong, LOCAL)
            found[wrong[0]] = "taken"
        except ValueError as error:
            found[wrong[0]] = str(error)
    return found


if __name__ == "__main__":
    engine = Engine(2)
    places = [engine.place(Place) for _ in range(2)]
    engine.publish([specification(place) for place in places])
    engine.start()
    with socket.socket() as sock:
        fronts = [kind(sock, Settings("https://:443"), thread.loop(), place) for kind, place in zip((Still, Quic), places, strict=True)]
        print(json.dumps(asyncio.run_coroutine_threadsafe(main(*fronts), thread.loop()).result(60)))
