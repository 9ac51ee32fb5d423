"""Steps that say more than one thing on a TCP connection, or use many connections."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype

from tests.conformance.answers import Answer, canonical, counts_line
from tests.conformance.cases import Step, as_list
from tests.conformance.queries import Query, flag_names
from tests.conformance.records import parse_record
from tests.conformance.run import Run
from tests.conformance.transports import framed, read_framed, send

__all__ = ["dialog", "parallel", "stream", "transfer"]


def stream(run: Run, number: int, step: Step) -> None:
    """Several queries written at once; the replies in the order of the queries."""
    queries = [run.query(text) for text in step["stream"]]
    replies: dict[int, bytes] = {}
    for message_id, query in enumerate(queries, 100):
        query.message.id = message_id
    with socket.create_connection((queries[0].host, queries[0].port), 3) as connection:
        connection.sendall(b"".join(framed(query.wire()) for query in queries))
        try:
            while len(replies) < len(queries) and (data := read_framed(connection, step.get("timeout", 2))):
                replies[int.from_bytes(data[:2], "big")] = data
        except OSError:
            pass
    lines = [reply_line(query, replies.get(query.message.id), "no reply") for query in queries]
    run.judge(number, step, "stream", {"replies": lines})


def reply_line(query: Query | None, data: bytes | None, otherwise: str) -> str:
    answer = canonical(data, query)
    return f"{query.text if query else '?'} {answer.get('rcode', otherwise)} {' | '.join(answer.get('answer', []))}"


def parallel(run: Run, number: int, step: Step) -> None:
    """Many connections open at once, then the query on each of them: how many had which response code."""
    query, counts = run.query(step["conns"]), Counter[str]()
    connections: list[socket.socket] = []
    try:
        for _ in range(step.get("n", 20)):
            connections.append(socket.create_connection((query.host, query.port), 5))
        for connection in connections:
            connection.sendall(framed(query.wire()))
        for connection in connections:
            try:
                counts[canonical(read_framed(connection, 5), query).get("rcode", "none")] += 1
            except OSError:
                counts["none"] += 1
    except OSError as error:
        counts[type(error).__name__] = 1
    finally:
        for connection in connections:
            connection.close()
    run.judge(number, step, step["conns"], {"counts": counts_line(counts)})


# ---- dialog ----


def dialog(run: Run, number: int, step: Step) -> None:
    """One connection, action by action; what came back as lines."""
    first = next((run.query(text) for action in step["dialog"] for text in as_list(action.get("send"))), None)
    host = step.get("host") or (first.host if first else "127.0.0.1")
    port = int(run.places.fill(str(step["port"]))) if "port" in step else first.port if first else run.places.port("port")
    try:
        connection = socket.create_connection((host, port), 3)
    except OSError as error:
        run.judge(number, step, "dialog", {"error": str(error)})
        return
    lines: list[str] = []
    queries: dict[int, Query] = {}
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        for action in step["dialog"]:
            if not write(connection, octets(run, action, queries), action):
                lines.append("send failed")
            time.sleep(action.get("pause", 0))
            lines += sorted(read_replies(connection, action, queries))
            if "eof" in action:
                lines.append(f"end: {end_of(connection, action['eof'])}")
    run.judge(number, step, "dialog", {"dialog": lines})


def octets(run: Run, action: dict[str, Any], queries: dict[int, Query]) -> bytes:
    """What an action writes. Its queries get ids of their own and go into ``queries``."""
    out = b""
    for text in as_list(action.get("send")):
        query = run.query(text)
        query.message.id = 201 + len(queries)
        queries[query.message.id] = query
        out += framed(query.wire())
    return out + bytes.fromhex(re.sub(r"\s", "", action.get("bytes", "")))


def write(connection: socket.socket, out: bytes, action: dict[str, Any]) -> bool:
    """Whether everything could be written."""
    size = action.get("chop") or max(1, len(out))
    try:
        for start in range(0, len(out), size):
            connection.sendall(out[start : start + size])
            if action.get("chop"):
                time.sleep(action.get("gap", 0.002))
        if action.get("half"):
            connection.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def read_replies(connection: socket.socket, action: dict[str, Any], queries: dict[int, Query]) -> list[str]:
    lines: list[str] = []
    for _ in range(action.get("read", 0)):
        try:
            data = read_framed(connection, action.get("limit", 3))
        except OSError as error:
            return [*lines, "timeout" if isinstance(error, TimeoutError) else "reset"]
        if not data:
            return [*lines, "closed"]
        lines.append(reply_line(queries.get(int.from_bytes(data[:2], "big")), data, "unparseable"))
    return lines


def end_of(connection: socket.socket, limit: float) -> str:
    connection.settimeout(limit)
    try:
        return "more bytes" if connection.recv(1) else "closed"
    except TimeoutError:
        return "open"
    except OSError:
        return "closed"


# ---- transfers ----


def transfer(run: Run, number: int, step: Step) -> None:
    """AXFR or IXFR (``+serial=N``) over TCP, or over UDP where the query says so."""
    query = run.query(step["xfr"])
    if "serial" in query.options:
        name = query.message.question[0].name
        query.message.authority.append(parse_record(f"{name} 0 SOA . . {query.options['serial'][0]} 0 0 0 0"))
    if "udp" in query.options:
        run.judge(number, step, step["xfr"], canonical(send(query), query))
        return
    wire = query.wire()
    try:
        connection = socket.create_connection(("127.0.0.1", query.port), 3, (query.source, 0) if query.source else None)
    except OSError as error:
        run.judge(number, step, step["xfr"], {"error": str(error)})
        return
    with connection:
        connection.sendall(framed(wire))
        answer, records = read_transfer(connection, query)
    if records:
        if not step.get("ordered"):
            answer["first"], answer["last"] = records[0], records[-1]
            records = sorted(records)
        answer["records"] = records
    run.judge(number, step, step["xfr"], answer)


def read_transfer(connection: socket.socket, query: Query) -> tuple[Answer, list[str]]:
    """The messages of a transfer until its second SOA record, an error or the end of the connection."""
    answer: Answer = {}
    records: list[str] = []
    soas, context = 0, None
    while True:
        try:
            data = read_framed(connection, 2)
        except OSError:
            data = None
        if not data:
            answer["ended"] = "early"
            break
        message = parse_part(data, query, context, answer)
        context = message.tsig_ctx
        if "rcode" not in answer:
            answer["rcode"] = dns.rcode.to_text(message.rcode())
            answer["flags"] = flag_names(message.flags)
        for rrset in message.answer:
            soas += rrset.rdtype == dns.rdatatype.SOA
            records.append(f"{rrset.name} {rrset.ttl} {dns.rdatatype.to_text(rrset.rdtype)} {rrset[0].to_text()}")
        up_to_date = "serial" in query.options and soas == len(records) == 1
        if message.rcode() or not message.answer or soas >= 2 or up_to_date:
            break
    return answer, records


def parse_part(data: bytes, query: Query, context: Any, answer: Answer) -> dns.message.Message:
    """One message of a transfer; whether its signature is right goes into ``answer``."""
    keys: dict[str, Any] = {}
    if query.key is not None:
        keys = {"keyring": {query.key.name: query.key}, "request_mac": query.message.mac, "tsig_ctx": context, "multi": True}
    try:
        message = dns.message.from_wire(data, one_rr_per_rrset=True, **keys)
    except dns.exception.DNSException as error:
        answer["tsig"] = type(error).__name__
        return dns.message.from_wire(data, one_rr_per_rrset=True, keyring=False)
    if message.had_tsig:
        answer["tsig"] = "ok"
    return message
