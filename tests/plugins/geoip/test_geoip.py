"""geoip: the directive, and its labels in answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dns.edns
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.geoip import ASN, CITY, Settings, parse
from fastdns.setup import Controller
from tests.plugins.geoip.mmdb import Float32, Unsigned, database
from tests.server import Server

PLACE = {
    "city": {"names": {"de": "Oxford an der Themse", "en": "Oxford"}},
    "continent": {"code": "EU", "names": {"en": "Europe"}},
    "country": {"iso_code": "GB", "is_in_european_union": True, "names": {"en": "United Kingdom"}},
    "location": {"latitude": 51.75, "longitude": -1.2577, "time_zone": "Europe/London"},
    "postal": {"code": "OX1"},
    "subdivisions": [{"iso_code": "ENG"}, {"names": {}}, {"iso_code": "OXF"}],
}
SYSTEM = {"autonomous_system_number": 64500, "autonomous_system_organization": "An Example"}
PLACES = ("city/name", "country/name", "country/code", "country/is_in_european_union", "continent/name", "continent/code", "subdivisions/code")
OTHERS = ("latitude", "longitude", "timezone", "postalcode")
SYSTEMS = ("asn/number", "asn/org")
#: What an address has that is not in the database.
MISSED = dict.fromkeys(PLACES + OTHERS, "") | {"country/is_in_european_union": "false"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("geoip /a.mmdb", Settings("/a.mmdb")),
        ("geoip a.mmdb {\n}", Settings("a.mmdb")),
        ("geoip a.mmdb {\n edns-subnet\n edns-subnet\n}", Settings("a.mmdb", True)),
    ],
)
def test_properties(text: str, wanted: Settings) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("geoip", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'geoip'"),
        ("geoip a b", "Wrong argument count or unexpected line ending after 'b'"),
        ("geoip a\ngeoip b", "Testfile:2 - Error during parsing: configuring multiple databases is not supported"),
        ("geoip a {\n languages en\n}", 'Testfile:2 - Error during parsing: unknown property "languages"'),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError, match=message):
        parse(Controller.of(text))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "failed to open database file: open .*/db: no such file or directory"),
        (b"", "failed to open database file: file is empty"),
        (b"text", "failed to open database file: error opening database: invalid MaxMind DB file"),
        (database({}, "Other"), 'failed to open database file: geoip2: reader does not support the "Other" database type'),
        (database({}, "GeoIP2-Domain"), r"database does not provide any supported schema \(city, asn\)"),
    ],
)
def test_files_that_will_not_do(serve: Callable[..., Server], data: bytes | None, message: str) -> None:
    def prepare(folder: Path) -> None:
        if data is not None:
            (folder / "db").write_bytes(data)

    server = serve(".:{port} {\n geoip {dir}/db\n}", wait=False, prepare=prepare)
    server.wait_log(f"plugin/geoip: .*Corefile:2 - Error during parsing: {message}")
    assert server.process.wait() == 1


def labelled(serve: Callable[..., Server], data: bytes, *properties: str, metadata: str = "metadata") -> Server:
    """A server that tells all labels in the text of its answers."""
    told = " ".join(f'{{{{ .Meta \\"geoip/{name}\\" }}}}|' for name in PLACES + OTHERS + SYSTEMS).replace(" ", "")
    template = f'template ANY ANY {{\n answer "{{{{ .Name }}}} 5 IN TXT \\"{told}\\""\n }}'
    corefile = f".:{{port}} {{\n bind 127.0.0.1 ::1\n {metadata}\n geoip db {{\n {' '.join(properties)}\n }}\n {template}\n}}"
    return serve(corefile, prepare=lambda folder: (folder / "db").write_bytes(data))


def labels(server: Server, subnet: str = "", **options: Any) -> dict[str, str]:
    """Those that have a value."""
    if subnet:
        options |= {"use_edns": 0, "options": [dns.edns.ECSOption.from_text(subnet)]}
    (text,) = server.answers("x.test", "TXT", **options)
    values = json.loads(text).split("|")
    return {name: value for name, value in zip(PLACES + OTHERS + SYSTEMS, values, strict=False) if value}


FULL = {
    "city/name": "Oxford",
    "country/name": "United Kingdom",
    "country/code": "GB",
    "country/is_in_european_union": "true",
    "continent/name": "Europe",
    "continent/code": "EU",
    "subdivisions/code": "ENG,,OXF",
    "latitude": "51.75",
    "longitude": "-1.2577",
    "timezone": "Europe/London",
    "postalcode": "OX1",
}


def test_places(serve: Callable[..., Server]) -> None:
    server = labelled(serve, database({"127.0.0.0/8": PLACE, "2001:db8::/32": {"city": {"names": {"en": "Six"}}}, "192.0.2.0/24": {}}), "edns-subnet")
    assert labels(server) == FULL
    assert labels(server, "192.0.2.0/24") == labels(server, "198.51.100.1/32") == {"country/is_in_european_union": "false"}
    assert labels(server, "2001:db8:1::/48") == {"city/name": "Six", "country/is_in_european_union": "false"}
    assert labels(server, host="::1") == {"country/is_in_european_union": "false"}


def test_the_subnet_counts_only_where_it_is_asked_for(serve: Callable[..., Server]) -> None:
    server = labelled(serve, database({"127.0.0.0/8": PLACE}))
    assert labels(server, "198.51.100.1/32") == FULL


@pytest.mark.parametrize("option", [b"", b"\0\1\x20", b"\0\3\0\0", b"\0\1\x21\0\1\2\3\4", b"\0\1\x20\0\1\2\3\4\5"])
def test_a_malformed_subnet_has_no_address(serve: Callable[..., Server], option: bytes) -> None:
    """The message is refused, or the client's own address counts."""
    server = labelled(serve, database({"127.0.0.0/8": PLACE}), "edns-subnet")
    got = server.answers("x.test", "TXT", use_edns=0, options=[dns.edns.GenericOption(8, option)])
    assert got == ["FORMERR"] or json.loads(got[0]).startswith("Oxford|")


def test_systems(serve: Callable[..., Server]) -> None:
    networks = {"127.0.0.0/8": SYSTEM, "10.0.0.0/8": {"autonomous_system_number": Unsigned(65535, 5)}, "192.0.2.0/24": {"autonomous_system_number": "text"}}
    server = labelled(serve, database(networks, "GeoLite2-ASN", size=24), "edns-subnet")
    assert labels(server) == {"asn/number": "64500", "asn/org": "An Example"}
    assert labels(server, "10.0.0.1/32") == {"asn/number": "65535"}
    assert labels(server, "192.0.2.1/32") == labels(server, "198.51.100.1/32") == {"asn/number": "0"}


def test_a_database_without_ipv6_has_nothing_for_it(serve: Callable[..., Server]) -> None:
    server = labelled(serve, database({"127.0.0.0/8": SYSTEM}, "GeoIP2-ISP", version=4))
    assert labels(server) == {"asn/number": "64500", "asn/org": "An Example"}
    assert labels(server, host="::1") == {}


def test_nothing_is_published_without_metadata(serve: Callable[..., Server]) -> None:
    assert labels(labelled(serve, database({"127.0.0.0/8": PLACE}), metadata="metadata example.org")) == {}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.5, "-0.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (180.0, "180"),
        (-73.98765, "-73.98765"),
        (0.00001234, "0.00001234"),
        (1e21, "1" + "0" * 21),
        (123456789012345680.0, "123456789012345680"),
        (5e-200, "0." + "0" * 199 + "5"),
        (Float32(0.1), "0.10000000149011612"),
        (float("inf"), ""),
    ],
)
def test_coordinates_are_the_shortest_decimals(serve: Callable[..., Server], number: float, text: str) -> None:
    server = labelled(serve, database({"127.0.0.0/8": {"location": {"latitude": number}}}))
    assert labels(server).get("latitude", "") == text


def test_a_view_asks_for_a_place(serve: Callable[..., Server]) -> None:
    server = serve(
        ".:{port} {\n view near {\n expr metadata('geoip/city/name') == 'Oxford'\n }\n bind 127.0.0.1\n metadata\n geoip db {\n edns-subnet\n }\n"
        " hosts {\n 192.0.2.1 x.test\n }\n}\n.:{port} {\n bind 127.0.0.1\n hosts {\n 192.0.2.2 x.test\n }\n}",
        prepare=lambda folder: (folder / "db").write_bytes(database({"198.51.100.0/24": PLACE})),
    )
    assert server.answers("x.test") == ["192.0.2.2"]
    assert server.answers("x.test", use_edns=0, options=[dns.edns.ECSOption("198.51.100.7", 32)]) == ["192.0.2.1"]


def test_a_reload_takes_a_newer_file(serve: Callable[..., Server]) -> None:
    server = labelled(serve, database({"127.0.0.0/8": PLACE}))
    assert labels(server)["city/name"] == "Oxford"
    db = server.folder / "db"
    newer = db.with_name("newer")
    newer.write_bytes(database({"127.0.0.0/8": {"city": {"names": {"en": "Cambridge"}}}}))
    newer.replace(db)
    server.reload(server.corefile.read_text())
    assert labels(server)["city/name"] == "Cambridge"


def test_every_kind_is_one_or_the_other() -> None:
    assert not CITY & ASN
