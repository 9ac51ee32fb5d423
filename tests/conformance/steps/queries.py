"""Steps that send one query, or the same one several times."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter

import yaml

from tests.conformance.answers import Answer, canonical, compare, counts_line, mask
from tests.conformance.cases import Step
from tests.conformance.run import Run
from tests.conformance.transports import framed, read_framed, udp_exchange

__all__ = ["burst", "query", "raw", "spread", "until"]


def query(run: Run, number: int, step: Step) -> None:
    """One query; with ``any_of: N`` several, whose answers must each be among those that N tries recorded."""
    text = step["q"]
    wanted = run.expected.get(number, {})
    timeout = 1.0 if wanted.get("no_reply") else 1.5 if run.record and step.get("quiet") else None
    if not step.get("any_of"):
        run.judge(number, step, text, run.ask(text, step, timeout))
        return
    answers: list[Answer] = []
    for _ in range(step["any_of"] if run.record else 3):
        got = mask(run.ask(text, step, timeout), step)
        got.pop("size", None)
        if got not in answers:
            answers.append(got)
    if run.record:
        run.recorded[number] = {"do": text, "any_of": answers}
        run.check(number, [], text)
        return
    others = [got for got in answers if all(compare(one, got, step) for one in wanted.get("any_of", []))]
    run.check(number, [f"not among the recorded answers: {json.dumps(others[0])}"] if others else [], text)


def until(run: Run, number: int, step: Step) -> None:
    """The same query until the answer is the recorded one, or, while recording, matches ``has``."""
    text, limit = step["until"], step.get("limit", 8)
    end = time.monotonic() + (min(limit, 2) if run.gave_up else limit)
    while True:
        got = mask(run.ask(text, step, 1.0), step)
        if run.record:
            shown = {part: value for part, value in got.items() if part != "question"}
            done = bool(re.search(str(step["has"]), yaml.safe_dump(shown, width=10_000)))
        else:
            done = not run.differences(number, got, step)
        if done or time.monotonic() > end:
            break
        time.sleep(step.get("every", 0.1))
    run.gave_up = run.gave_up or not done
    if run.record and not done:
        run.check(number, [f"never had /{step['has']}/: {got}"], text)
    else:
        run.judge(number, step, text, got)


def spread(run: Run, number: int, step: Step) -> None:
    """The set of first answer records (of one ``type``) over many queries."""
    first: set[str] = set()
    for _ in range(step.get("n", 40)):
        records = run.ask(step["spread"], {**step, "ordered": True}).get("answer", [])
        if step.get("type"):
            records = [record for record in records if f" {step['type']} " in record]
        first.add(records[0] if records else "none")
    run.judge(number, step, step["spread"], {"first": sorted(first)})


def burst(run: Run, number: int, step: Step) -> None:
    """Many queries at once, ``{i}`` in the text being their number: how many had which response code."""
    codes: list[str] = []

    def ask(index: int) -> None:
        got = run.ask(step["burst"].replace("{i}", str(index)), step)
        codes.append("none" if got.get("no_reply") else got.get("rcode", "error"))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(step.get("n", 4))]
    for thread in threads:
        thread.start()
        time.sleep(step.get("gap", 0))
    for thread in threads:
        thread.join()
    run.judge(number, step, step["burst"], {"counts": counts_line(Counter(codes))})


def raw(run: Run, number: int, step: Step) -> None:
    """Any octets as a message."""
    wire = bytes.fromhex(re.sub(r"\s", "", step["raw"]))
    host, port = step.get("host", "127.0.0.1"), int(run.places.fill(str(step.get("port", "{port}"))))
    timeout = 1.5
    if run.expected.get(number, {}).get("no_reply"):
        timeout = step.get("patience", 0.8)
    elif run.record and "patience" in step:
        timeout = 0.8
    if step.get("tcp"):
        with socket.create_connection((host, port), 2) as connection:
            connection.sendall(framed(wire))
            try:
                data = read_framed(connection, timeout)
            except OSError:
                data = None
    else:
        data = udp_exchange(wire, host, port, None, timeout)
    got = canonical(data)
    if data and len(wire) >= 2 and data[:2] != wire[:2]:
        got["broken"] = "wrong id"
    run.judge(number, step, f"raw {step['raw'][:24]}", got)
