"""Clients that hold connections, in a process of their own: ``python -m tests.slowloris PORT IDLE DRIPPING``.

IDLE connections ask one question and then nothing, again when it is time lest they end; DRIPPING ones send an octet of a question now and then,
which never becomes whole in time. Whoever is cut connects anew. Prints a JSON line now and then: how many are held, have answers, were cut.
Ends with its standard input.
"""

from __future__ import annotations

import errno
import itertools
import json
import resource
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from fastdns._wire import name_wire

ROOT = Path(__file__).resolve().parent.parent
#: Seconds between two questions of an idle connection, and between two octets of a dripping one.
AGAIN, DRIP = 7.0, 0.5
#: Connects under way at once, below what a listening socket queues.
BACKLOG = 400
STATUS = 0.2


class Slowloris:
    """The attack as a test sees it."""

    def __init__(self, port: int, idle: int, dripping: int) -> None:
        command = [sys.executable, "-m", "tests.slowloris", str(port), str(idle), str(dripping)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def status(self) -> dict[str, int]:
        """The next line."""
        assert self.process.stdout is not None
        found: dict[str, int] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        """Ends it; the kernel closes its connections."""
        self.process.kill()
        self.process.communicate()


def question(number: int) -> bytes:
    body = number.to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0" + name_wire("www.example.org.") + b"\0\1\0\1"
    return len(body).to_bytes(2, "big") + body


class Client:
    """One connection."""

    __slots__ = ("connected", "dripping", "due", "sent", "sock")

    def __init__(self, dripping: bool) -> None:
        self.dripping = dripping
        self.connected = False
        self.due = 0.0
        self.sent = 0
        self.sock: socket.socket | None = None


def run(port: int, idle: int, dripping: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    poll = select.epoll()
    poll.register(sys.stdin, select.EPOLLIN)
    clients: dict[int, Client] = {}
    fresh = [Client(True) for _ in range(dripping)] + [Client(False) for _ in range(idle)]
    # Ports of one address would not do for all.
    sources = itertools.cycle(f"127.0.0.{number}" for number in range(2, 12))
    message = question(1)
    connecting = answered = cut = 0
    said = swept = 0.0

    def drop(client: Client) -> None:
        nonlocal connecting, cut
        assert client.sock is not None
        del clients[client.sock.fileno()]
        client.sock.close()
        connecting -= not client.connected
        cut += client.connected
        client.connected, client.sent = False, 0
        fresh.append(client)

    while True:
        now = time.monotonic()
        while fresh and connecting < BACKLOG:
            client = fresh.pop()
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            sock.bind((next(sources), 0))
            status = sock.connect_ex(("127.0.0.1", port))
            if status not in (0, errno.EINPROGRESS):
                sock.close()
                fresh.append(client)
                break
            client.sock = sock
            clients[sock.fileno()] = client
            connecting += 1
            poll.register(sock, select.EPOLLOUT | select.EPOLLIN)
        for fd, events in poll.poll(0.02, 4096):
            if fd == sys.stdin.fileno():
                return
            found = clients.get(fd)
            if found is None or found.sock is None:
                continue
            try:
                if events & (select.EPOLLERR | select.EPOLLHUP):
                    raise ConnectionError
                if not found.connected:
                    found.connected = True
                    connecting -= 1
                    poll.modify(fd, select.EPOLLIN)
                    if not found.dripping:
                        found.sock.send(message)
                        found.due = now + AGAIN
                elif events & select.EPOLLIN:
                    reply = found.sock.recv(4096)
                    if not reply:
                        raise ConnectionError
                    answered += 1
            except OSError:
                drop(found)
        if now - swept >= DRIP:
            swept = now
            for client in list(clients.values()):
                if not client.connected or client.due > now or client.sock is None:
                    continue
                try:
                    if client.dripping:
                        client.sock.send(message[client.sent : client.sent + 1])
                        client.sent = min(client.sent + 1, len(message) - 2)
                    else:
                        client.sock.send(message)
                        client.due = now + AGAIN
                except OSError:
                    drop(client)
        if now - said >= STATUS:
            said = now
            held = [client.dripping for client in clients.values() if client.connected]
            status_line = {"idle": len(held) - sum(held), "dripping": sum(held), "answered": answered, "cut": cut}
            print(json.dumps(status_line), flush=True)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
