"""dnssec: signs replies on their way out."""

from __future__ import annotations

from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.dnssec._dnssec import DnssecHandler
from fastdns.plugins.dnssec.keys import Key, key_of_texts, key_path, read_key
from fastdns.plugins.dnssec.signing import THREAD, Signing
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: RRsets whose signatures are kept, by default, at least and at most.
CAPACITY = 10000
LEAST = 1024
MOST = 1 << 24
#: RRsets signed in a second.
PACE = 5000


class Settings:
    """What a ``dnssec`` directive says."""

    def __init__(self) -> None:
        self.zones: list[str] = []
        self.keys: list[Key] = []
        self.capacity = CAPACITY
        self.pace = PACE


def setup(controller: Controller) -> None:
    """Add the block's handler; keys are read here."""
    settings = parse(controller)
    signing = Signing(settings.keys)
    keys = [(key.ttl, key.rdata) for key in settings.keys]
    capacity = min(max(settings.capacity, LEAST), MOST)
    handler = DnssecHandler("dnssec", ZoneList(settings.zones), signing.number, keys, capacity, settings.pace)
    signing.handler = handler
    handler.plugin = signing  # which it stops when no query waits in it any more
    controller.config.add_handler(handler)

    def start() -> None:
        THREAD.start()
        signing.start()

    controller.on_startup(start)


def parse(controller: Controller) -> Settings:
    """Read the directive and its keys. Raises CorefileError and ValueError."""
    settings = Settings()
    while controller.once():
        settings.zones = controller.zones(controller.remaining_args())
        while controller.next_block():
            match controller.val():
                case "key":
                    settings.keys += _keys(controller)
                case "cache_capacity":
                    settings.capacity = controller.integer(controller.arg())
                case "signatures_per_second":
                    settings.pace = controller.integer(controller.one_arg())
                    if not 0 < settings.pace <= 10**6:
                        raise controller.err(f"signatures_per_second must be between 1 and 1000000: {settings.pace}")
                case other:
                    raise controller.err(f"unknown property '{other}'")
    for key in settings.keys:
        if not any(_below(name_wire(zone.lower()), key.owner) for zone in settings.zones):
            raise CorefileError(f"key {key.name} (keyid: {key.tag}) can not sign any of the zones")
    return settings


def _below(name: bytes, zone: bytes) -> bool:
    """Whether a name is in a zone; both in wire form and lower case."""
    at = 0
    while len(name) - at > len(zone):
        at += name[at] + 1
    return name[at:] == zone


def _keys(controller: Controller) -> list[Key]:
    """Of a line ``key file NAME...`` or ``key aws_secretsmanager ID...``; CoreDNS takes no notice of any other."""
    match controller.arg():
        case "file":
            return [read_key(key_path(controller, name)) for name in controller.args(1)]
        case "aws_secretsmanager":
            return [_from_aws(secret) for secret in controller.args(1)]
    return []


def _from_aws(secret: str) -> Key:
    """A key from a secret of AWS: JSON with the texts ``key`` and ``private``. Raises CorefileError."""
    import json

    from fastdns.setup.extras import extra_package

    with extra_package("boto3", "key aws_secretsmanager"):
        import boto3
    try:
        texts = json.loads(boto3.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"])
        public, private = texts["key"], texts["private"]
    except Exception as error:  # the library's are made as they are needed, and have no common base
        raise CorefileError(f"secret {secret}: {type(error).__name__}: {error}") from error
    return key_of_texts(public, private, secret, secret)
