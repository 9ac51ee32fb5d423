"""dnstap: tells a collector what clients ask and get, and what upstreams are asked."""

from __future__ import annotations

import socket

from fastdns import __version__
from fastdns.corefile.errors import quoted
from fastdns.plugins.dnstap._dnstap import DnstapHandler
from fastdns.plugins.dnstap._sender import Sender
from fastdns.plugins.dnstap.endpoint import Endpoint
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.walk.placeholders import Format

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

MIB = 1 << 20
#: Octets of the queue for each 10,000 messages.
QUEUE = 4 * MIB
WRITE_BUFFER_MAX = 1024
QUEUE_MAX = 4096


def setup(controller: Controller) -> None:
    """``dnstap [listen] ENDPOINT [full] [WRITEBUF] [QUEUE] { … }``; each occurrence is a tap of its own, in the order of the file."""
    while controller.next():
        controller.config.add_handler(parse(controller))


def parse(controller: Controller) -> DnstapHandler:
    """One occurrence."""
    arguments = controller.args(1)
    listens = arguments[0] == "listen"
    if listens:
        del arguments[0]
        if not arguments:
            raise controller.err("dnstap listen requires an endpoint argument")
    try:
        endpoint = Endpoint.parse(arguments[0])
    except ValueError:
        raise controller.arg_err() from None
    buffer = multiple(controller, "MultipleTcpWriteBuf", arguments[2:3], WRITE_BUFFER_MAX, "MiB units")
    queue = multiple(controller, "MultipleQueue", arguments[3:4], QUEUE_MAX, "x10k messages")
    identity, version, extra, skip_verify = socket.gethostname(), f"fastdns-{__version__}", "", False
    files: tuple[str, ...] = ()
    while controller.next_block():
        option = controller.val()
        if option == "skipverify":
            skip_verify = True
        elif option == "tls":
            if not listens:
                raise controller.err("tls directive only valid for listeners")
            files = tuple(map(controller.path, controller.remaining_args()[:3]))
            if len(files) < 2:
                raise controller.err("tls requires cert and key file paths")
        elif option == "identity":
            identity = controller.arg()
        elif option == "version":
            version = controller.arg()
        elif option == "extra":
            extra = controller.arg()
        else:
            raise controller.err(f"unknown property '{option}'")
    form = Format(extra) if extra else None
    sender = Sender(str(arguments[0]), octets(identity), octets(version), form, arguments[1:2] == ["full"], queue * QUEUE)
    return follow(controller, sender, endpoint, listens, skip_verify, buffer * MIB, files)


def follow(controller: Controller, sender: Sender, endpoint: Endpoint, listens: bool, skip_verify: bool, buffer: int, files: tuple[str, ...]) -> DnstapHandler:
    """The handler, whose connection comes and goes with the configuration."""
    from fastdns.plugins.dnstap.collector import Collector
    from fastdns.plugins.dnstap.listener import Certificates, Listener

    connection = Listener(sender, endpoint, Certificates(files, skip_verify)) if listens else Collector(sender, endpoint, skip_verify, buffer)

    def start() -> None:
        if sender.extra is not None:
            sender.extra.resolve(controller.config)
        connection.start()

    controller.on_startup(start)
    controller.on_final_shutdown(connection.finish)
    return DnstapHandler(sender, connection)


def multiple(controller: Controller, name: str, argument: list[str], most: int, unit: str) -> int:
    """A number from 1; 1 where there is no argument."""
    if not argument:
        return 1
    try:
        number = controller.integer(argument[0])
    except ValueError as error:
        raise controller.err(f"dnstap: invalid {name} {quoted(argument[0])}: {error}") from None
    if not 1 <= number <= most:
        raise controller.err(f"dnstap: {name} must be between 1 and {most} ({unit}): {number}")
    return number


def octets(text: str) -> bytes:
    """Of an argument, which may not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")
