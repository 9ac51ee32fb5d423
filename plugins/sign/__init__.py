"""sign: signs zone files, for file and auto to serve."""

from __future__ import annotations

from fastdns import control
from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted, system_error
from fastdns.plugins.dnssec.keys import Key, key_path, read_key
from fastdns.plugins.sign.signer import REFRESH, Signer
from fastdns.protocol.parameters import TYPE_DNSKEY
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.zonefile import parser

__all__ = ["parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

DIRECTORY = "/var/lib/coredns"


def setup(controller: Controller) -> None:
    """Sign in the background what has to be, at the start and every five hours; the chain has no part in it."""
    signers = parse(controller)
    timers: list[control.Timer] = []

    def start() -> None:
        due = [(signer, why) for signer in signers if (why := signer.look())]
        if due:
            timers.append(control.after(0, lambda: _sign_all(due)))
        timers.extend(control.every(REFRESH, signer.refresh) for signer in signers)

    def stop() -> None:
        for timer in timers:
            timer.cancel()

    controller.on_startup(start)
    controller.on_shutdown(stop)


def _sign_all(due: list[tuple[Signer, str]]) -> None:
    for signer, why in due:
        signer.sign_and_tell(why)


def parse(controller: Controller) -> list[Signer]:
    """Read the directives and their keys. Raises CorefileError."""
    signers: list[Signer] = []
    while controller.next():
        path = controller.path(controller.arg())
        if "\ufffd" in path:
            raise CorefileError(f"dbfile {quoted(path)} contains invalid characters")
        zones = [Signer(path, origin, DIRECTORY) for origin in controller.zones(controller.remaining_args())]
        while controller.next_block():
            match controller.val():
                case "key":
                    keys = _keys(controller)
                    for signer in zones:
                        signer.keys += keys
                case "directory":
                    words = controller.remaining_args()
                    if len(words) != 1:
                        raise CorefileError('can only be one argument after "directory"')
                    for signer in zones:
                        signer.directory = controller.path(words[0], reads=False)
                case other:
                    raise controller.err(f"unknown property '{other}'")
        signers += zones
    return signers


def _keys(controller: Controller) -> list[Key]:
    match controller.arg():
        case "file":
            return [_key(key_path(controller, name)) for name in controller.args(1)]
        case "directory":
            raise CorefileError("directory: not implemented")
    return []


def _key(base: str) -> Key:
    """A key that may sign a whole zone."""
    path = base + ".key"
    try:
        records = parser.read(path)
    except OSError as error:
        raise CorefileError(system_error(error, "open", path)) from error
    except ValueError as error:
        raise CorefileError(str(error)) from error
    if records and records[0][1] != TYPE_DNSKEY:
        raise CorefileError(f"RR in {quoted(path)} is not a DNSKEY: {records[0][1]}")
    if records and int.from_bytes(records[0][4][:2], "big") & 0x0101 != 0x0101:
        raise CorefileError(f"DNSKEY in {quoted(path)} is not a CSK/KSK")
    return read_key(base)
