"""geoip: where a client is, as labels of metadata."""

from __future__ import annotations

import os
from dataclasses import dataclass
from weakref import WeakValueDictionary

from fastdns.corefile.errors import quoted, system_error
from fastdns.plugins.geoip._geoip import GeoipHandler
from fastdns.plugins.geoip._mmdb import Database
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "provides", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

#: ``database_type`` of the databases that have places, and of those that have autonomous systems, as the library of CoreDNS knows them.
CITY = {
    "DBIP-City-Lite",
    "DBIP-Country-Lite",
    "DBIP-Country",
    "DBIP-Location (compat=City)",
    "DBIP-ISP (compat=Enterprise)",
    "DBIP-Location-ISP (compat=Enterprise)",
    "GeoIP-City-Redacted-US",
    "GeoIP-Enterprise-Redacted-US",
    "GeoIP2-City",
    "GeoIP2-City-Africa",
    "GeoIP2-City-Asia-Pacific",
    "GeoIP2-City-Europe",
    "GeoIP2-City-North-America",
    "GeoIP2-City-South-America",
    "GeoIP2-Country",
    "GeoIP2-Enterprise",
    "GeoIP2-Precision-City",
    "GeoLite2-City",
    "GeoLite2-Country",
}
ASN = {"DBIP-ASN-Lite (compat=GeoLite2-ASN)", "GeoIP2-ISP", "GeoIP2-Precision-ISP", "GeoLite2-ASN"}
#: Those that it knows, but that have neither.
OTHERS = {"GeoIP-Anonymous-Plus", "GeoIP2-Anonymous-IP", "GeoIP2-Connection-Type", "GeoIP2-Domain"}

#: Databases in memory by file, device, inode, time and size: blocks share them, and a reload finds them again.
_standing: WeakValueDictionary[tuple[str, int, int, int, int], Database] = WeakValueDictionary()


@dataclass
class Settings:
    """What the directive says."""

    path: str = ""
    #: Whether the client-subnet option counts.
    subnet: bool = False


def setup(controller: Controller) -> None:
    """Add the handler; it takes no part in the chain, but labels are found by it."""
    settings = parse(controller)
    try:
        database = load(settings.path)
        city, asn = provides(database)
    except ValueError as error:
        raise controller.err(str(error)) from None
    controller.config.add_handler(GeoipHandler(database, city=city, asn=asn, subnet=settings.subnet))


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError."""
    settings = Settings()
    while controller.next():
        if not controller.next_arg():
            raise controller.arg_err()
        if settings.path:
            raise controller.err("configuring multiple databases is not supported")
        settings.path = controller.val()
        controller.reads(settings.path)
        if controller.remaining_args():
            raise controller.arg_err()
        while controller.next_block():
            if controller.val() != "edns-subnet":
                raise controller.err(f"unknown property {quoted(controller.val())}")
            settings.subnet = True
    return settings


def load(path: str) -> Database:
    """The database of a file, which is read at once: one that is truncated while we serve does no harm. Raises ValueError."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            key = (os.path.abspath(path), status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            database = _standing.get(key)
            if database is None:
                data = file.read()
                if not data:
                    raise ValueError("failed to open database file: file is empty")
                database = _standing[key] = Database(data)
    except OSError as error:
        operation = "read" if isinstance(error, IsADirectoryError) else "open"
        raise ValueError(f"failed to open database file: {system_error(error, operation, path)}") from None
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith("failed") else f"failed to open database file: {text}") from None
    return database


def provides(database: Database) -> tuple[bool, bool]:
    """Whether there are places, and autonomous systems. Raises ValueError where there is neither."""
    kind = database.type
    if kind not in CITY | ASN | OTHERS:
        raise ValueError(f"failed to open database file: geoip2: reader does not support the {quoted(kind)} database type")
    if kind in OTHERS:
        raise ValueError("database does not provide any supported schema (city, asn)")
    return kind in CITY, kind in ASN
