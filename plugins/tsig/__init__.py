"""tsig: transaction signatures of requests and replies (RFC 8945)."""

from __future__ import annotations

from typing import Any

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted, system_error
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.tsig._tsig import TsigHandler
from fastdns.plugins.tsig.keys import decoded, normal, parse_keys
from fastdns.protocol.parameters import TYPES
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system.digest import KINDS, DigestError, hmac_of
from fastdns.telemetry.log import Log

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

log = Log("plugin/tsig")

OPCODES = {"QUERY": 0, "IQUERY": 1, "STATUS": 2, "NOTIFY": 4, "UPDATE": 5}


class Settings:
    """What a ``tsig`` directive says."""

    def __init__(self) -> None:
        self.zones: list[str] = []
        #: Key name to secret, in base64.
        self.secrets: dict[str, str] = {}
        #: Numbers of types and opcodes that have to be signed.
        self.types: set[int] = set()
        self.opcodes: set[int] = set()
        self.all_types = False
        self.all_opcodes = False


def setup(controller: Controller) -> None:
    """Add the block's handler; its keys hold for the other blocks of its addresses, too."""
    settings = parse(controller)
    secrets = {name: decoded(secret) for name, secret in settings.secrets.items()}
    for name, octets in secrets.items():
        if octets is None:
            log.warning(f"The secret of key {quoted(name)} is not base64: nothing is ever signed well with it")
            continue
        for kind in KINDS:
            try:
                hmac_of(kind, octets, [])
            except DigestError as error:
                raise controller.err(f"key {quoted(name)}: {error}") from None
    controller.config.values["tsig"] = settings
    blocks: list[Any] = controller.values.setdefault("tsig", [])
    blocks.append((controller.config, secrets))
    controller.config.add_handler(
        TsigHandler("tsig", ZoneList(settings.zones), secrets, blocks, settings.types, settings.opcodes, settings.all_types, settings.all_opcodes)
    )


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError."""
    settings = Settings()
    while controller.once():
        settings.zones = controller.zones(controller.remaining_args())
        while controller.next_block():
            _property(controller, settings)
    return settings


def _property(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "secret":
            name, secret = controller.args(2, 2)
            _add(settings, {normal(name): secret})
        case "secrets":
            path = controller.one_arg()
            controller.reads(path)
            _add(settings, _from_file(path))
        case "require":
            everything, settings.types = _numbers(controller, {name: number for number, name in TYPES.items()}, "query type")
            settings.all_types |= everything
        case "require_opcode":
            everything, settings.opcodes = _numbers(controller, OPCODES, "opcode")
            settings.all_opcodes |= everything
        case other:
            raise controller.err(f"unknown property '{other}'")


def _add(settings: Settings, secrets: dict[str, str]) -> None:
    for name, secret in secrets.items():
        if name in settings.secrets:
            raise CorefileError(f"key {quoted(name)} redefined")
        settings.secrets[name] = secret


def _from_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return parse_keys(file.read())
    except OSError as error:
        raise CorefileError(system_error(error, "open", path)) from error


def _numbers(controller: Controller, names: dict[str, int], kind: str) -> tuple[bool, set[int]]:
    """Of a line with names, ``all`` or ``none``: whether it is all, and the numbers."""
    words = controller.args(1)
    if words[0] in ("all", "none"):
        return words[0] == "all", set()
    for word in words:
        if word not in names:
            raise controller.err(f"unknown {kind} '{word}'")
    return False, {names[word] for word in words}
