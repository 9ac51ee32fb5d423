"""Sockets that outlive the process, kept by its service manager: systemd, or ``fastdns-node``, which speaks the same protocol (sd_listen_fds(3), sd_notify(3)).

At its start the process takes those of the descriptors that listen on an address of its Corefile. Once it serves it says so, and gives the manager
duplicates of all its listening sockets. When it dies, queries wait in these sockets for the next process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fastdns.corefile.address import strip_scope
from fastdns.corefile.zone import UDP_TRANSPORTS

if TYPE_CHECKING:
    from fastdns.engine.listener import Listener
    from fastdns.server.servers import Server

__all__ = ["FIRST", "MESSAGE_MAX", "Given", "given", "keep", "move", "place"]

#: The first descriptor that a manager passes (sd_listen_fds(3)).
FIRST = 3
#: Descriptors in one message; the kernel passes 253 at most (SCM_MAX_FD).
MESSAGE_MAX = 64
#: Names of descriptors end at a colon.
COLON = "|"

Place = tuple[socket.SocketKind, bytes, int, int]


class Given:
    """The descriptors that the manager has passed."""

    def __init__(self, names: Sequence[str]) -> None:
        #: Of the descriptors, from `FIRST` on.
        self.names = names
        self.places: dict[int, Place | None] = {}
        for descriptor in range(FIRST, FIRST + len(names)):
            try:
                # What this process has opened itself is not inheritable.
                if not os.get_inheritable(descriptor):
                    continue
            except OSError:
                continue
            os.set_inheritable(descriptor, False)
            self.places[descriptor] = place(descriptor)

    def listeners(self, servers: Iterable[Server]) -> dict[str, list[int]]:
        """The descriptors that listen on the servers' addresses, by label, for `Instance.open`. All others are of no use."""
        found: dict[str, list[int]] = {}
        for server in servers:
            wanted = _wanted(server)
            found[server.address] = [descriptor for descriptor, where in self.places.items() if where in wanted]
        return found

    def close(self) -> None:
        """Close the descriptors; who took some has duplicates."""
        for descriptor in self.places:
            os.close(descriptor)


def given() -> Given | None:
    """What the manager has passed to this process; None where it has passed nothing. To be called before it opens files."""
    pid, count, names = (os.environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal() or int(count) == 0:
        return None
    listed = names.split(":")[: int(count)]
    return Given(listed + [""] * (int(count) - len(listed)))


def place(descriptor: int) -> Place | None:
    """Where a descriptor receives queries: type, address, port and zone; None for what is no such socket."""
    copy = os.dup(descriptor)
    try:
        sock = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return None
    with sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if sock.type != (socket.SOCK_STREAM if listens else socket.SOCK_DGRAM):
            return None
        host, port, *rest = sock.getsockname()
        return sock.type, _octets(host), port, rest[1] if rest else 0


def _octets(host: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, strip_scope(host))


def _wanted(server: Server) -> set[Place]:
    kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM]
    if server.transport != "dns":
        kinds = [socket.SOCK_DGRAM if server.transport in UDP_TRANSPORTS else socket.SOCK_STREAM]
    # Without an address it is both families', or IPv4 alone where there is no IPv6.
    hosts = [server.host] if server.host else ["::", "0.0.0.0"]
    address, _, zone = hosts[0].partition("%")
    scope = socket.if_nametoindex(zone) if zone else 0
    return {(kind, _octets(host), server.port, scope if address == strip_scope(host) else 0) for kind in kinds for host in hosts}


# ---- to the manager ----


def keep(listeners: Mapping[str, Listener], former: Iterable[str]) -> None:
    """Tell the manager that the process serves, and have it keep the listeners' sockets. ``former``: names or labels of what it may have of this service."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    names = {_name(label): listener.filenos() for label, listener in listeners.items()}
    for name in {_name(label) for label in former} - names.keys():
        _tell(path, f"FDSTOREREMOVE=1\nFDNAME={name}")
    for name, descriptors in names.items():
        for at in range(0, len(descriptors), MESSAGE_MAX):
            # systemd would take an ICMP error on a socket for its end.
            _tell(path, f"FDSTORE=1\nFDPOLL=0\nFDNAME={name}", descriptors[at : at + MESSAGE_MAX])
    _tell(path, "READY=1")


def move(pid: int) -> None:
    """Tell the manager that from now on the process with this id is the service."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        _tell(path, f"MAINPID={pid}")


def _name(label: str) -> str:
    return label.replace(":", COLON)


def _tell(path: str, text: str, descriptors: Sequence[int] = ()) -> None:
    """A manager that is gone, or does not read, changes nothing for those who ask."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1.0)
        try:
            sock.connect("\0" + path[1:] if path.startswith("@") else path)
            if descriptors:
                socket.send_fds(sock, [text.encode()], list(descriptors))
            else:
                sock.send(text.encode())
        except OSError:
            pass
