"""The sample cluster of ``make run`` and ``make ask``.

python tools/sample.py run PROGRAM        serves it with PROGRAM, a fastdns, and prints what to ask and what to expect
python tools/sample.py ask [NAME TYPE]    asks for one name, or for all that ``run`` prints, and prints the records

The port is 5353, or the next that is free; ``build/sample.port`` holds it while the cluster is served.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "fastdns" / "sample"
PORT_FILE = ROOT / "build" / "sample.port"
ADDRESS = "127.0.0.1"
PORT = 5353

#: Seconds to wait for an answer.
TIMEOUT = 3


def queries() -> Iterator[tuple[str, str, list[str]]]:
    """Name, type and expected records of each line."""
    for line in (SAMPLE / "queries.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            question, _, answers = line.partition(" = ")
            name, _, rdtype = question.partition(" ")
            yield name, rdtype, answers.split(" | ")


def taken(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:  # connections of a server that has just ended do not count
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                return True
    return False


def run(program: str) -> int:
    """Serve until a signal; the status of the server."""
    port = next(port for port in range(PORT, 65536) if not taken(port))
    if port != PORT:
        print(f"Port {PORT} is taken, perhaps by mDNS: the sample cluster is served on {port}.")
    tool = f"dig +short @{ADDRESS} -p {port} %s %s" if shutil.which("dig") else "make -s ask Q='%s %s'"
    print(f"A sample cluster is served on {ADDRESS}:{port} until Ctrl-C. In another terminal:\n")
    for name, rdtype, answers in queries():
        print("  " + tool % (name, rdtype))
        for answer in answers:
            print("      " + ("(nothing: the name does not exist)" if answer == "NXDOMAIN" else answer))
    print(flush=True)
    PORT_FILE.parent.mkdir(exist_ok=True)
    PORT_FILE.write_text(f"{port}\n")
    server = subprocess.Popen([program, "-conf", "Corefile", "-dns.port", str(port)], cwd=SAMPLE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: server.send_signal(number))
    try:
        return server.wait()
    finally:
        PORT_FILE.unlink(missing_ok=True)


def ask(port: int, name: str, rdtype: str) -> list[str]:
    """The records of the answer section as text; the rcode where it is not NOERROR. Raises OSError where nothing answers."""
    import dns.message
    import dns.rcode

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(TIMEOUT)
        client.connect((ADDRESS, port))
        client.send(dns.message.make_query(name, rdtype).to_wire())
        reply = dns.message.from_wire(client.recv(65535))
    if reply.rcode() != dns.rcode.NOERROR:
        return [dns.rcode.to_text(reply.rcode())]
    return [rdata.to_text() for rrset in reply.answer for rdata in rrset]


def main(arguments: list[str]) -> int:
    command, *rest = arguments
    if command == "run":
        return run(os.path.abspath(rest[0]))
    port = int(PORT_FILE.read_text()) if PORT_FILE.is_file() else PORT
    try:
        for name, rdtype in [rest] if rest else [(name, rdtype) for name, rdtype, _ in queries()]:
            print(*([] if rest else [f"{name} {rdtype}"]), *ask(port, name, rdtype), sep="\n" if rest else "\n    ")
    except (OSError, ImportError):  # nothing is installed either before the first `make run`
        print(f"nothing answers on {ADDRESS}:{port}: start `make run` first", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
