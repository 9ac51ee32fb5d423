"""chaos: what a server says of itself in class CH."""

from __future__ import annotations

from fastdns import __version__
from fastdns.plugins.chaos._chaos import ChaosHandler
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system.host import host_name

__all__ = ["AUTHORS", "parse", "setup", "txt_rdata"]

TRAITS = Traits(any_class=True, runs_in_check=True)

#: Octets of one character string (RFC 1035 3.3).
STRING_MAX = 255

#: What authors.bind says where the Corefile names nobody.
AUTHORS = ["The fastdns authors"]


def setup(controller: Controller) -> None:
    """Add the block's handler."""
    version, authors = parse(controller)
    controller.config.add_handler(ChaosHandler("chaos", txt_rdata(version), [txt_rdata(author) for author in authors], txt_rdata(host_name())))


def parse(controller: Controller) -> tuple[str, list[str]]:
    """``chaos [VERSION] [AUTHORS...]``: version and authors. Only the first directive of a block counts. Raises CorefileError."""
    controller.next()
    arguments = controller.remaining_args()
    if controller.next_block():
        raise controller.err(f"unknown property '{controller.val()}'")
    version = arguments[0] if arguments else f"fastdns-{__version__}"
    return version, sorted(set(arguments[1:])) or AUTHORS


def txt_rdata(text: str) -> bytes:
    """One character string in wire form, with ``\\DDD`` and ``\\X`` escapes read, cut to 255 octets."""
    octets = text.encode("utf-8", "surrogateescape")
    out = bytearray()
    at = 0
    while at < len(octets):
        octet = octets[at]
        at += 1
        if octet == 0x5C:
            digits = octets[at : at + 3]
            if len(digits) == 3 and digits.isdigit():
                out.append(int(digits) & 0xFF)
                at += 3
                continue
            if at == len(octets):
                break
            octet = octets[at]
            at += 1
        out.append(octet)
    del out[STRING_MAX:]
    return bytes([len(out)]) + bytes(out)
