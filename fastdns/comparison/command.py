"""``fastdns shadow``: what the plugin has found, or a comparison of the messages in files with a server's answers."""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastdns.comparison.asking import Asked, Limits, ask_all, parse_server
from fastdns.comparison.files import read_recorded
from fastdns.comparison.known import KNOWN, known_names
from fastdns.comparison.question import question_of
from fastdns.comparison.recorded import RecordingError
from fastdns.comparison.tally import KEEP, Tally, text
from fastdns.corefile.duration import parse_duration

__all__ = ["run"]

OUTSTANDING_MOST = 4096
#: Questions that `-distinct` remembers; those that were asked first go first.
DISTINCT_MOST = 1_000_000
RECORDED = "the file"

Ask = Callable[[dict[str, Any], int], dict[str, Any]]


def run(flags: Mapping[str, str], rest: list[str], ask: Ask) -> int:
    """Run the command. ``ask`` is the control socket's. Returns the exit status. Raises ValueError, OSError."""
    if rest == ["report"]:
        section = ask({"sections": ["shadow"]}, int(flags.get("pid") or 0)).get("shadow")
        if section is None:
            raise ValueError("the Corefile that is served has no shadow")
        return _tell(section["targets"], section, "json" in flags)
    if "against" not in flags:
        raise ValueError("shadow needs 'report', or -against ADDRESS and a file")
    if not rest:
        raise ValueError("shadow -against needs a file of dnstap messages, or a capture")
    servers = [parse_server(flags[name]) for name in ("of", "against") if name in flags]
    tally = Tally(_whole(flags, "keep", KEEP, 0, 100_000), known_names(flags["ignore"].split(",")) if "ignore" in flags else frozenset(KNOWN))
    limits = Limits()
    limits = limits._replace(
        rate=float(_whole(flags, "rate", round(limits.rate), 1, 1_000_000)), outstanding=_whole(flags, "outstanding", limits.outstanding, 1, OUTSTANDING_MOST)
    )
    if "timeout" in flags:
        limits = limits._replace(timeout=parse_duration(flags["timeout"]) / 1e9)
        if limits.timeout <= 0:
            raise ValueError("the timeout is longer than no time")
    ask_all(questions(rest, _whole(flags, "port", 53, 1, 65535), len(servers) == 2, "distinct" in flags), servers, tally, limits)
    names = (str(servers[0]) if len(servers) == 2 else RECORDED, str(servers[-1]))
    report = tally.report(names)
    return _tell([report], report, "json" in flags)


def _tell(reports: list[dict[str, Any]], document: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        json.dump(document, sys.stdout, indent=2)
        print()
    else:
        for report in reports:
            if "since" in report:
                since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(report["since"]))
                print(f"{report['servers'][1]} beside this server since {since}, {report['state']}")
            print("\n".join(text(report)))
    return int(any(sum(report["differences"].values()) for report in reports))


def questions(paths: list[str], port: int, of_two: bool, distinct: bool) -> Iterator[Asked]:
    """Of the files. With one server the replies in them, else the queries. Raises RecordingError where there are none."""
    asked: OrderedDict[bytes, None] = OrderedDict()
    found = 0
    for path in paths:
        for message in read_recorded(path, port):
            question = question_of(message.octets) if message.is_reply != of_two else b""
            if not question:
                continue
            found += 1
            if distinct:
                if question in asked:
                    continue
                asked[question] = None
                if len(asked) > DISTINCT_MOST:
                    asked.popitem(last=False)
            yield Asked(question, b"" if of_two else message.octets, message.client)
    if not found:
        raise RecordingError(f"{' '.join(paths)}: no {'queries' if of_two else 'answers'} of clients")


def _whole(flags: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """A flag that is a whole number. Raises ValueError."""
    text = flags.get(name, str(default))
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ValueError(f"-{name} is a number from {least} to {most}, not '{text}'")
    return int(text)
