"""What the ``secondary`` directives of a server block say."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.address import host_port, split_servername
from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import origins
from fastdns.plugins.file.storage import store_folder
from fastdns.plugins.secondary.age import AFTER, AFTER_LEAST, Stale
from fastdns.plugins.secondary.exchange import Limits
from fastdns.plugins.secondary.primary import Primary, primary_of
from fastdns.plugins.secondary.secure import secure_of
from fastdns.plugins.secondary.signing import Key
from fastdns.setup import Controller

__all__ = ["Block", "Settings", "parse"]


class Settings:
    """One directive."""

    def __init__(self) -> None:
        #: In the order in which they are asked.
        self.primaries: list[Primary] = []
        self.key: Key | None = None
        self.limits = Limits()
        #: Folder where zones are kept; "": nowhere.
        self.store = ""
        self.stale: Stale | None = None

    def identity(self, zone: str) -> tuple[object, ...]:
        """What makes a zone of another configuration the same one."""
        return zone.lower(), tuple(self.primaries), self.key.identity if self.key is not None else None, self.store, self.stale


class Places:
    """Where primaries are, and how they are reached."""

    def __init__(self) -> None:
        #: ``address:port``, whether with TLS, and the name in the certificate where it stands in the address.
        self.found: list[tuple[str, bool, str]] = []
        #: Paths of certificate, key and CA; None: there is no such property.
        self.tls: list[str] | None = None
        self.servername = ""


class Block:
    """All directives of a server block."""

    def __init__(self) -> None:
        #: By lower-case origin: of two with the same name the later one.
        self.settings: dict[str, Settings] = {}
        #: Catalogs, and the names that their members must be or be below; none: any.
        self.catalogs: dict[str, list[str]] = {}
        self.fall: list[str] = []


def parse(controller: Controller) -> Block:
    """Read the directives. Raises CorefileError and ValueError with the texts of CoreDNS."""
    block = Block()
    while controller.next():
        settings = Settings()
        zones = [zone.lower() for zone in controller.zones(controller.remaining_args())]
        places = Places()
        while controller.next_block():
            _property(controller, block, settings, places, zones)
        if not places.found:
            raise controller.err("secondary zones require a transfer from property")
        settings.primaries = _primaries(controller, places)
        for zone in zones:
            block.settings[zone] = settings
    return block


def _property(controller: Controller, block: Block, settings: Settings, places: Places, zones: list[str]) -> None:
    match controller.val():
        case "transfer":
            places.found += _places(controller)
        case "tls":
            places.tls = [controller.path(path) for path in controller.args(0, 3)]
        case "tls_servername":
            places.servername = controller.one_arg()
        case "catalog":
            members = _members(controller.remaining_args())
            for zone in zones:
                block.catalogs[zone] = _merged(block.catalogs.get(zone), members)
        case "fallthrough":
            block.fall = controller.fallthrough()
        case "key":
            settings.key = Key(*controller.args(2, 3))
        case "store":
            settings.store = store_folder(controller)
        case "stale":
            settings.stale = _stale(controller)
        case "max_records":
            settings.limits.records = controller.unsigned(controller.one_arg())
        case "max_octets":
            settings.limits.octets = controller.unsigned(controller.one_arg())
        case "max_time":
            settings.limits.seconds = controller.seconds(controller.one_arg())
        case word:
            raise controller.err(f"unknown property '{word}'")


def _places(controller: Controller) -> list[tuple[str, bool, str]]:
    word, *addresses = controller.args(1)
    if word != "from":
        raise controller.err(f"unknown property {word}")
    if not addresses:
        raise controller.arg_err()
    if "*" in addresses:
        raise CorefileError("can't use '*' in transfer from")
    return [_place(address) for address in addresses]


def _place(text: str) -> tuple[str, bool, str]:
    secured = text.startswith("tls://")
    name = ""
    if secured:
        text = text.removeprefix("tls://")
        if "%" in text:
            text, name = split_servername(text)
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
    return host_port(text, "853" if secured else "53"), secured, name


def _primaries(controller: Controller, places: Places) -> list[Primary]:
    if (places.tls is not None or places.servername) and not any(secured for _, secured, _ in places.found):
        raise controller.err("tls and tls_servername need a primary with tls://")
    if places.servername and any(name for _, _, name in places.found):
        raise controller.err(f"both tls_servername ('{places.servername}') and an address name the certificate of a primary")
    secure = secure_of(places.tls or ()) if any(secured for _, secured, _ in places.found) else None
    return [primary_of(address, secure, name or places.servername) if secured else primary_of(address) for address, secured, name in places.found]


def _stale(controller: Controller) -> Stale:
    arguments = controller.args(1, 2)
    if arguments[0] not in ("serve", "fail"):
        raise controller.err(f"stale must be serve or fail: '{arguments[0]}'")
    if arguments == ["fail"]:
        raise controller.arg_err()
    stale = Stale(arguments[0] == "fail", controller.seconds(arguments[1]) if len(arguments) > 1 else AFTER)
    if stale.after < AFTER_LEAST:
        raise controller.err(f"stale must be at least {AFTER_LEAST:g}s: '{arguments[1]}'")
    return stale


def _members(arguments: list[str]) -> list[str]:
    found: list[str] = []
    for argument in arguments:
        zones = origins(argument)
        if not zones:
            raise CorefileError(f"invalid catalog member zone {quoted(argument)}")
        found += [zone.lower() for zone in zones]
    return found


def _merged(standing: list[str] | None, members: list[str]) -> list[str]:
    """A line without names means any, whatever other lines say."""
    if standing is not None and not (standing and members):
        return []
    return list(dict.fromkeys([*(standing or []), *members]))
