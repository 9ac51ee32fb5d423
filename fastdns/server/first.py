"""``fastdns init``: three questions become a first Corefile, for a network without Kubernetes."""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import NamedTuple

from fastdns.corefile.errors import system_error
from fastdns.server.inspection import Inspection
from fastdns.server.source import DEFAULT_FILE, Source

__all__ = ["Answers", "compose", "write"]

RESOLV_CONF = "/etc/resolv.conf"
#: Loopback, private networks (RFC 1918, RFC 4193) and those of a link.
NETWORKS = "127.0.0.0/8 ::1 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fe80::/10"
#: Quad9's, where resolv.conf names none but this machine.
UPSTREAMS = "9.9.9.9 149.112.112.112"
NONE = "-"
MODE = 0o644


class Answers(NamedTuple):
    """One for each question, as typed."""

    #: Networks whose clients may ask.
    networks: str = NETWORKS
    #: Arguments of *forward*.
    upstreams: str = UPSTREAMS
    #: A zone whose names are in /etc/hosts, or "-".
    zone: str = NONE


QUESTIONS = Answers(
    "Networks whose clients may ask",
    "Servers that get all other questions, such as 9.9.9.9 or tls://9.9.9.9",
    "A zone of your own with the names in /etc/hosts, such as home.arpa, or - for none",
)


def write(path: str) -> int:
    """Ask on standard input, and write the Corefile ``path`` ("": ./Corefile), which must not exist. Returns the exit status. Raises OSError, ValueError."""
    path = path or DEFAULT_FILE
    if os.path.lexists(path):
        raise ValueError(f"{path}: exists; it is left as it is")
    answers = Answers(upstreams=_upstreams())
    for field, question in QUESTIONS._asdict().items():
        answers = _ask(field, question, answers)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "w", encoding="utf-8") as file:
            file.write(compose(answers))
    except OSError as error:
        raise OSError(system_error(error, path=path)) from None
    print(f"{path} is written: fastdns -conf {path} serves it, fastdns plan {path} shows what it does.")
    return 0


def compose(answers: Answers) -> str:
    """The Corefile."""
    hosts = "" if answers.zone == NONE else f"    hosts /etc/hosts {answers.zone} {{\n        fallthrough\n    }}\n"
    return f"""# Written by fastdns init. fastdns check tells what is wrong with a change, SIGUSR1 makes the server take it up.
. {{
    # Addresses to serve on, where another program has port 53 of some:
    # bind 192.0.2.1 127.0.0.1
    acl {{
        allow net {answers.networks}
        block
    }}
{hosts}    cache
    forward . {answers.upstreams}
    errors
}}
"""


def _ask(field: str, question: str, answers: Answers) -> Answers:
    """The answers with one more, which is asked for again at a terminal while it is wrong. Raises ValueError."""
    while True:
        print(f"{question} [{getattr(answers, field)}]: ", end="", flush=True)
        line = sys.stdin.readline()
        text = " ".join(line.split())
        if not sys.stdin.isatty():
            print(text)
        given = answers._replace(**{field: text}) if text else answers
        problem = _problem(given)
        if not problem:
            return given
        if not line or not sys.stdin.isatty():
            raise ValueError(problem)
        print(f"  {problem}")


def _problem(answers: Answers) -> str:
    """What is wrong with a Corefile of these answers; "" if nothing is."""
    for network in answers.networks.split():
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError as error:
            return str(error)
    if " " in answers.zone:
        return f"{answers.zone}: one zone only"
    inspection = Inspection(Source(compose(answers).encode(), DEFAULT_FILE), "53")
    return next((problem.message for problem in inspection.problems if problem.severity == "error"), "")


def _upstreams() -> str:
    """The servers of resolv.conf, but for this machine."""
    try:
        with open(RESOLV_CONF, encoding="utf-8", errors="replace") as file:
            named = [line.split()[1] for line in file if line.startswith("nameserver") and len(line.split()) > 1]
    except OSError:
        named = []
    found = []
    for text in named:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified or address.is_link_local):
            found.append(text)
    return " ".join(found) or UPSTREAMS
