"""Prints the queries that the sample cluster answers, or asks one of them where there is no dig.

python tools/sample_queries.py QUERIES PORT             what to try, and what to expect
python tools/sample_queries.py QUERIES PORT NAME TYPE   asks, and prints the records
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Name, type and expected records of each line."""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            question, _, answers = line.partition(" = ")
            name, _, rdtype = question.partition(" ")
            yield name, rdtype, answers.split(" | ")


def ask(port: int, name: str, rdtype: str) -> list[str]:
    """The records of the answer section as text; the rcode where it is not NOERROR."""
    import dns.message
    import dns.query
    import dns.rcode

    reply = dns.query.udp(dns.message.make_query(name, rdtype), "127.0.0.1", port=port, timeout=5)
    if reply.rcode() != dns.rcode.NOERROR:
        return [dns.rcode.to_text(reply.rcode())]
    return [rdata.to_text() for rrset in reply.answer for rdata in rrset]


def main(arguments: list[str]) -> None:
    path, port = arguments[:2]
    if len(arguments) == 4:
        print("\n".join(ask(int(port), *arguments[2:])))
        return
    tool = f"dig +short @127.0.0.1 -p {port} %s %s" if shutil.which("dig") else "make -s ask Q='%s %s'"
    print(f"A sample cluster is served on 127.0.0.1:{port} until Ctrl-C. In another terminal:\n")
    for name, rdtype, answers in read(Path(path)):
        print("  " + tool % (name, rdtype))
        for answer in answers:
            print("      " + ("(nothing: the name does not exist)" if answer == "NXDOMAIN" else answer))
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
