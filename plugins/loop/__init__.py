"""``loop``: ends the process when the server forwards queries to itself."""

from __future__ import annotations

import os
import socket
import threading
import time

from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import origins
from fastdns.plugins.loop._loop import Loop
from fastdns.setup import Config, Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["Prober", "probe_name", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/loop")

#: Seconds after the start in which a loop is looked for.
WINDOW = 30.0
#: Seconds that one probe waits for its reply, and the pause after one without.
REPLY_SECONDS = 2.0
PAUSE_SECONDS = 1.0
#: How often the count is looked at meanwhile.
LOOK_SECONDS = 0.05

HINFO = 13


def setup(controller: Controller) -> None:
    """``loop``, once a block and without arguments."""
    while controller.once():
        controller.no_args()
    zone = (origins(controller.key) or ["."])[0]
    name = probe_name(zone)
    handler = Loop(name)
    controller.config.add_handler(handler)
    prober = Prober(handler, controller.config, zone, name)
    controller.on_started(prober.start, whole=True)
    controller.on_shutdown(prober.stop)


def probe_name(zone: str) -> str:
    """A name in the zone that nobody can guess: 128 bits from the kernel, in two labels."""
    first, second = (int.from_bytes(os.urandom(8)) for _ in range(2))
    return f"{first}.{second}.{'' if zone == '.' else zone}"


class Prober(threading.Thread):
    """Sends the probe to the server's own address until it is answered, and looks whether it comes back."""

    def __init__(self, handler: Loop, config: Config, zone: str, name: str) -> None:
        super().__init__(name="loop", daemon=True)
        self.handler = handler
        self.zone = zone
        self.name_asked = name
        self.host = config.listen_hosts[0] if config.listen_hosts else ""
        self.port = config.port
        self.ended = threading.Event()

    def run(self) -> None:
        """Until there was a reply, or the time is over."""
        try:
            end = time.monotonic() + WINDOW
            while time.monotonic() < end and not self.ended.is_set() and not self.ask():
                self.handler.reset()
                self.ended.wait(PAUSE_SECONDS)
            self.look()
        finally:
            self.handler.disable()

    def stop(self) -> None:
        """Another configuration runs, or none."""
        self.ended.set()

    def ask(self) -> bool:
        """Send one probe; whether a reply came. Does not return when a loop is found."""
        host = self.host or "127.0.0.1"
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, int(self.port), type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as sock:
                sock.connect(address)
                query, number = self.query()
                sock.send(query)
                sock.settimeout(LOOK_SECONDS)
                end = time.monotonic() + REPLY_SECONDS
                while time.monotonic() < end and not self.ended.is_set():
                    self.look()
                    try:
                        reply = sock.recv(65535)
                    except TimeoutError:
                        continue
                    if reply[:2] == number:
                        return True
        except (OSError, ValueError):
            pass
        return False

    def query(self) -> tuple[bytes, bytes]:
        """The question in wire form, and its id."""
        from fastdns._wire import name_wire

        number = os.urandom(2)
        head = number + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
        return head + name_wire(self.name_asked) + HINFO.to_bytes(2, "big") + b"\x00\x01", number

    def look(self) -> None:
        """End the process if the probe has come in three times."""
        client = self.handler.client()
        if client is None:
            return
        octets, port = client
        source = _host_port(socket.inet_ntop(socket.AF_INET if len(octets) == 4 else socket.AF_INET6, octets), str(port))
        log.fatal(
            f"Loop ({source} -> {_host_port(self.host, self.port)}) detected for zone {quoted(self.zone)}, "
            f'see https://coredns.io/plugins/loop#troubleshooting. Query: "HINFO {self.name_asked}"'
        )


def _host_port(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
