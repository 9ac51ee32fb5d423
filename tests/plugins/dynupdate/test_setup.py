"""What a dynupdate directive may say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.plugins.dynupdate import parse, setup
from fastdns.plugins.dynupdate.content import Limits
from fastdns.setup import Controller
from tests.plugins.dynupdate.zones import SEED, TSIG
from tests.server import Server

ALLOW = "allow key. host.example.org. A"


def test_all_options(tmp_path: Path) -> None:
    text = "dynupdate {\n file seed\n database zone.db\n allow Key host.Example.org A aaaa TYPE16\n allow key. @ *\n allow other. * ANY\n"
    settings = parse(Controller.of(f"{text} max_records 5\n max_bytes 600\n max_update_records 7\n}}", ["Example.org"]))
    assert settings.origin == "example.org."
    assert settings.seed == "seed"
    assert settings.database == str(Path.cwd() / "zone.db")
    assert settings.limits == Limits(5, 600, 7)
    host, apex, key = name_wire("host.example.org."), name_wire("example.org."), name_wire("key.")
    assert [settings.permissions.allow(key, host, kind) for kind in (1, 28, 16, 15, 255)] == [True, True, True, False, False]
    assert settings.permissions.allow(key, apex, 15)
    assert not settings.permissions.allow(key, name_wire("www.example.org."), 1)
    assert settings.permissions.allow(name_wire("other."), host, 255)
    assert not settings.permissions.allow(name_wire("other."), host, 1)


def test_defaults() -> None:
    settings = parse(Controller.of(f"dynupdate {{\n file seed\n {ALLOW}\n}}", ["example.org"]))
    assert (settings.database, settings.limits) == ("", Limits(10_000, 8 << 20, 1024))


def test_the_zone_may_be_given() -> None:
    settings = parse(Controller.of("dynupdate 192.0.2.0/24 {\n file seed\n allow key. * PTR\n}", ["example.org", "example.net"]))
    assert settings.origin == "2.0.192.in-addr.arpa."


@pytest.mark.parametrize(
    ("text", "keys", "error"),
    [
        ("dynupdate", [], "file is required"),
        ("dynupdate {\n file seed\n}", [], "at least one allow rule is required"),
        (f"dynupdate {{\n {ALLOW}\n}}", [], "file is required"),
        ("dynupdate {\n file\n}", [], "Wrong argument count or unexpected line ending after 'file'"),
        ("dynupdate {\n file a b\n}", [], "Wrong argument count or unexpected line ending after"),
        ("dynupdate {\n file a\n file b\n}", [], "file specified more than once"),
        ("dynupdate {\n database a\n database b\n}", [], "database specified more than once"),
        ("dynupdate {\n database\n}", [], "Wrong argument count or unexpected line ending after 'database'"),
        ("dynupdate {\n max_records 0\n}", [], "max_records requires a positive integer"),
        ("dynupdate {\n max_bytes -1\n}", [], "max_bytes requires a positive integer"),
        ("dynupdate {\n max_update_records x\n}", [], "max_update_records requires a positive integer"),
        ("dynupdate {\n max_records 1 2\n}", [], "Wrong argument count or unexpected line ending after"),
        ("dynupdate {\n journal\n}", [], 'unknown property "journal"'),
        ("dynupdate a b {\n}", [], "exactly one zone is allowed"),
        ("dynupdate {\n}", ["a.org", "b.org"], "zone is required when the server block does not define exactly one zone"),
        ("dynupdate {\n allow key. host.example.org.\n}", [], "allow requires KEY NAME and at least one RR type"),
        ("dynupdate {\n allow * host.example.org. A\n}", [], 'invalid TSIG key "*"'),
        ("dynupdate {\n allow a..b host.example.org. A\n}", [], 'invalid TSIG key "a..b"'),
        ("dynupdate {\n allow key. host.example.net. A\n}", [], 'allow name "host.example.net." is outside zone "example.org."'),
        ("dynupdate {\n allow key. host A\n}", [], 'allow name "host" is outside zone "example.org."'),
        ("dynupdate {\n allow key. * * A\n}", [], "wildcard RR type must be the only type in an allow rule"),
        ("dynupdate {\n allow key. * NOSUCH\n}", [], 'invalid RR type "NOSUCH" in allow rule'),
        ("dynupdate {\n allow key. * RRSIG\n}", [], 'invalid RR type "RRSIG" in allow rule'),
        ("dynupdate {\n allow key. * AXFR\n}", [], 'invalid RR type "AXFR" in allow rule'),
        ("dynupdate {\n allow key. * TYPE65280\n}", [], 'invalid RR type "TYPE65280" in allow rule'),
        (f"dynupdate {{\n file a\n {ALLOW}\n}}\ndynupdate {{\n}}", [], "this plugin can only be used once per Server Block"),
    ],
)
def test_errors(text: str, keys: list[str], error: str) -> None:
    with pytest.raises(CorefileError, match=re.escape(error)):
        parse(Controller.of(text, keys or ["example.org"]))


@pytest.mark.parametrize(
    ("seed", "options", "error"),
    [
        (None, "", 'opening zone file "seed": open seed: no such file or directory'),
        (SEED + "www IN A 1.2.3\n", "", 'parsing zone file "seed": '),
        ("$ORIGIN example.org.\nwww 60 IN A 192.0.2.1\n", "", 'zone "example.org." has no SOA'),
        (SEED + "@ IN SOA ns hostmaster 2 3600 600 86400 60\n", "", 'zone "example.org." contains more than one SOA'),
        (SEED.replace("hostmaster 1 ", "hostmaster 0 "), "", 'invalid zone "example.org.": zone contains an SOA with serial zero'),
        (SEED + "www IN CNAME ns\n", "", 'invalid zone "example.org.": zone contains CNAME data conflict at www.example.org.'),
        (SEED + "alias IN A 192.0.2.1\n", "", 'invalid zone "example.org.": zone contains CNAME data conflict at alias.example.org.'),
        (SEED + "www CH TXT x\n", "", 'invalid zone "example.org.": zone contains a non-IN record'),
        (SEED + "example.net. IN A 192.0.2.1\n", "", 'invalid zone "example.org.": zone contains an out-of-zone record'),
        (SEED + "sub IN DS 1 8 1 0123456789012345678901234567890123456789\n", "", "zone contains unsupported RR type DS"),
        (SEED, "max_records 4", 'zone file "seed" exceeds configured limits'),
        (SEED, "max_bytes 100", 'zone file "seed" exceeds configured limits'),
    ],
)
def test_the_seed_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: str | None, options: str, error: str) -> None:
    monkeypatch.chdir(tmp_path)
    if seed is not None:
        (tmp_path / "seed").write_text(seed)
    with pytest.raises(CorefileError) as raised:
        setup(Controller.of(f"dynupdate {{\n file seed\n {ALLOW}\n {options}\n}}", ["example.org"]))
    assert error in str(raised.value)
    assert (raised.value.file, raised.value.line) == ("Testfile", 1)


@pytest.mark.parametrize(
    ("tsig", "options", "texts"),
    [
        (TSIG, "", []),
        ("", "", ["every UPDATE is refused: the block has no tsig"]),
        (TSIG.replace("tsig {", "tsig example.net {"), "", ["every UPDATE is refused: tsig is not for example.org."]),
        (TSIG.replace("require_opcode UPDATE", ""), "", ["tsig does not require UPDATE to be signed"]),
        (TSIG.replace("secret key.", "secret another."), "", ["no tsig has the key key. of an allow line"]),
        (TSIG, "database no/zone.db", ["the folder of ", "/no/zone.db is not there or cannot be written to"]),
    ],
)
def test_what_check_warns_of(serve: Callable[..., Server], tsig: str, options: str, texts: list[str]) -> None:
    import subprocess

    from tests.server import command

    text = f"example.org:{{port}} {{\n {tsig}\n dynupdate {{\n file seed\n {options}\n {ALLOW}\n }}\n}}"
    server = serve(text, wait=False, prepare=lambda folder: (folder / "seed").write_text(SEED))
    checked = subprocess.run([*command(), "check", str(server.corefile)], capture_output=True, text=True, cwd=server.folder)
    assert all(part in checked.stdout for part in texts), checked.stdout
    assert ("plugin/dynupdate" in checked.stdout) == bool(texts), checked.stdout
    assert sorted(path.name for path in server.folder.iterdir() if path.name.startswith("zone")) == []
