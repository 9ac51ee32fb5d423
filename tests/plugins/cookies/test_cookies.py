"""Server cookies through a socket: how they look, how long they are good, who gets BADCOOKIE, and what fits."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.cookies import parse
from fastdns.plugins.cookies._cookies import server_cookie
from fastdns.plugins.cookies.secrets import read_secrets
from fastdns.setup import Controller
from tests.programs import environment, program
from tests.server import Server, free_port
from tests.validators import run
from tests.waiting import until

COOKIE = dns.edns.OptionType.COOKIE
CLIENT = bytes.fromhex("2464c4abcf10c957")
ADDRESS = b"\x7f\x00\x00\x01"
SECRETS = ["00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"]
BADCOOKIE = 23

COREFILE = """
.:{port} {
    bind 127.0.0.1 ::1
    prometheus 127.0.0.1:{port9}
    cookies {
        RULES
    }
    whoami
}
"""
FILE = "secret {dir}/secrets"


def corefile(*rules: str) -> str:
    return COREFILE.replace("RULES", "\n        ".join(rules))


def ask(server: Server, cookie: bytes = CLIENT, **options: object) -> tuple[int, bytes | None]:
    """The rcode, and the cookie of the reply."""
    reply = server.query("example.org.", use_edns=0, options=[dns.edns.GenericOption(COOKIE, cookie)], **options)
    found = [option.to_wire() for option in reply.options if option.otype == COOKIE]
    assert len(found) < 2
    return int(reply.rcode()), found[0] if found else None


def made(secret: str, when: float, version: int = 1, reserved: bytes = bytes(3), address: bytes = ADDRESS, client: bytes = CLIENT) -> bytes:
    head = client + bytes([version]) + reserved + (int(when) & 0xFFFFFFFF).to_bytes(4, "big")
    return client + server_cookie(bytes.fromhex(secret), head, address)


@pytest.fixture
def start(serve, tmp_path: Path):
    (tmp_path / "secrets").write_text("\n".join(SECRETS))
    return lambda *rules: serve(corefile(*rules).replace("{dir}", str(tmp_path)))


# RFC 9018, appendix A: client cookie, address, secret, server cookie.
E5, DD, FOUR = "e5e973e5a6b2a43f48e7dc849e37bfcf", "dd3bdf9344b678b185a6f5cb60fca715", "445536bcd2513298075a5d379663c962"
SIX = "2001:db8:220:1:59de:d0f4:8769:82b8"
VECTORS = [
    ("2464c4abcf10c957", "198.51.100.100", E5, "010000005cf79f111f8130c3eee29480"),
    ("2464c4abcf10c957", "198.51.100.100", E5, "010000005cf7a871d4a564a1442aca77"),
    ("fc93fc62807ddb86", "203.0.113.203", E5, "01abcdef5cf78f71a314227b6679ebf5"),
    ("fc93fc62807ddb86", "203.0.113.203", E5, "010000005cf7a9acf73a7810aca2381e"),
    ("22681ab97d52c298", SIX, DD, "010000005cf7c57926556bd0934c72f8"),
    ("22681ab97d52c298", SIX, FOUR, "010000005cf7c609a6bb79d16625507a"),
]


@pytest.mark.parametrize(("client", "address", "secret", "wanted"), VECTORS)
def test_vectors_of_rfc_9018(client: str, address: str, secret: str, wanted: str) -> None:
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    assert server_cookie(bytes.fromhex(secret), bytes.fromhex(client + wanted[:16]), packed).hex() == wanted


def test_a_client_learns_its_cookie_and_keeps_it(start) -> None:
    server = start()
    before = int(time.time())
    rcode, first = ask(server)
    assert rcode == dns.rcode.NOERROR
    assert first is not None
    assert (len(first), first[:8], first[8:12]) == (24, CLIENT, b"\x01\x00\x00\x00")
    assert before <= int.from_bytes(first[12:16], "big") <= time.time()
    for tcp in (False, True):
        assert ask(server, first, tcp=tcp) == (dns.rcode.NOERROR, first)
    wanted = {"client": 1, "valid": 2, "invalid": 0}
    for kind, count in wanted.items():
        assert server.metric(server.ports["port9"], f'fastdns_cookies_queries_total{{cookie="{kind}",server="dns://127.0.0.1:{server.port}"}}') == count


def test_who_sends_none_gets_none(start) -> None:
    server = start("require")
    for options in ({}, {"use_edns": 0}):
        reply = server.query("example.org.", **options)
        assert reply.rcode() == dns.rcode.NOERROR
        assert not reply.options


@pytest.mark.parametrize(
    ("age", "good", "same"),
    [
        (0, True, True),
        (1700, True, True),
        (1900, True, False),
        (3590, True, False),
        (3620, False, False),
        (-290, True, True),
        (-320, False, False),
        (1 << 31, False, False),
    ],
)
def test_lifetime(start, age: int, good: bool, same: bool) -> None:
    server = start(FILE, "require")
    cookie = made(SECRETS[0], time.time() - age)
    rcode, answer = ask(server, cookie)
    assert rcode == (dns.rcode.NOERROR if good else BADCOOKIE)
    assert (answer == cookie) == same
    assert ask(server, answer) == (dns.rcode.NOERROR, answer)


def test_what_is_not_this_server_s_cookie(start) -> None:
    server = start(FILE, "require")
    now = time.time()
    good = made(SECRETS[0], now)
    bad = {
        "secret": made("00" * 16, now),
        "address": made(SECRETS[0], now, address=b"\x7f\x00\x00\x02"),
        "client": bytes(8) + good[8:],
        "version": made(SECRETS[0], now, version=2),
        "hash": good[:-1] + bytes([good[-1] ^ 1]),
        "short": good[:16],
        "long": good + bytes(16),
        "none": CLIENT,
    }
    for kind, cookie in bad.items():
        rcode, answer = ask(server, cookie)
        assert rcode == BADCOOKIE, kind
        assert ask(server, answer)[0] == dns.rcode.NOERROR, kind
        assert ask(server, cookie, tcp=True)[0] == dns.rcode.NOERROR, kind
    # Reserved octets are part of the hash, and may be anything (RFC 9018 4.2).
    reserved = made(SECRETS[0], now, reserved=b"abc")
    assert ask(server, reserved) == (dns.rcode.NOERROR, reserved)
    assert server.metric(server.ports["port9"], f'fastdns_cookies_refused_total{{server="dns://127.0.0.1:{server.port}"}}') == len(bad)


def test_without_require_nobody_gets_badcookie(start) -> None:
    server = start()
    for cookie in (CLIENT, made("00" * 16, time.time()), CLIENT + bytes(8), CLIENT + bytes(32)):
        rcode, answer = ask(server, cookie)
        assert rcode == dns.rcode.NOERROR
        assert len(answer) == 24


def test_ipv6(start) -> None:
    server = start(FILE, "require")
    address = socket.inet_pton(socket.AF_INET6, "::1")
    cookie = made(SECRETS[0], time.time(), address=address)
    assert ask(server, cookie, host="::1") == (dns.rcode.NOERROR, cookie)
    assert ask(server, cookie)[0] == BADCOOKIE


def test_secrets_are_rolled_over(serve, tmp_path: Path) -> None:
    """RFC 9018 5: the next secret is accepted first, then makes cookies, then the former one goes. Nothing is reloaded."""
    old, new = SECRETS
    file = tmp_path / "secrets"
    file.write_text(f"# one\n{old}\n")
    server = serve(corefile(f"secret {file}", "require"))
    now = time.time()

    def accepted(secret: str) -> bool:
        return ask(server, made(secret, now))[0] == dns.rcode.NOERROR

    assert (accepted(old), accepted(new)) == (True, False)
    file.write_text(f"{old}\n{new}\n")
    until(lambda: accepted(new))
    assert ask(server, made(old, now))[1] == made(old, now)
    file.write_text(f"{new}\n{old}\n")
    until(lambda: ask(server, made(old, now))[1] != made(old, now))
    renewed = ask(server, made(old, now))[1]
    assert renewed == made(new, int.from_bytes(renewed[12:16], "big"))
    file.write_text(f"{new}\n")
    until(lambda: not accepted(old))
    file.write_text("none\n")
    server.wait_log(r"\[ERROR\] plugin/cookies: .*secrets have changed and cannot be used: secrets:1: not a secret of 32 hexadecimal digits")
    assert accepted(new)


def test_reloads_and_upgrades_keep_the_secret(serve) -> None:
    server = serve(corefile("require"))
    cookie = ask(server)[1]
    server.reload(corefile("require", "# again"))
    assert ask(server, cookie) == (dns.rcode.NOERROR, cookie)
    server.signal(signal.SIGUSR2)
    server.wait_log(r"Upgrade finished")
    server.process.wait(20)
    assert ask(server, cookie) == (dns.rcode.NOERROR, cookie)


def test_secrets_of_processes_differ(serve, tmp_path: Path) -> None:
    one = serve(corefile("require"))
    cookie = ask(one)[1]
    one.stop()
    other = serve(corefile("require"))
    assert ask(other, cookie)[0] == BADCOOKIE


# ---- sizes ----

ZONE = "$ORIGIN {0}.\n@ 60 SOA ns host 1 60 60 60 60\n@ 60 NS ns\nns 60 A 192.0.2.1\n"


def test_no_reply_is_cut_for_its_cookie(serve, tmp_path: Path) -> None:
    """Replies of each size around the client's: with and without cookies the same records and the same TC, and the cookie where it fits."""
    lines = [f"t{size} 60 TXT " + " ".join('"' + "x" * min(255, size - at) + '"' for at in range(0, size, 255)) for size in range(395, 480)]
    lines += [f"m{count} 60 MX {place} a-name-that-compresses-{place}.sub" for count in range(5, 25) for place in range(count)]
    for zone in ("with.test", "sans.test"):
        (tmp_path / zone).write_text(ZONE.format(zone) + "\n".join(lines) + "\n")
    blocks = "".join(
        f"{zone}:{{port}} {{\n bind 127.0.0.1\n {more}\n file {tmp_path}/{zone}\n}}\n" for zone, more in (("with.test", "cookies"), ("sans.test", ""))
    )
    server = serve(blocks)
    carried = set()
    for payload in (512, 1232):
        for name, rdtype in [(f"t{size}", "TXT") for size in range(395, 480)] + [(f"m{count}", "MX") for count in range(5, 25)]:
            options = {"use_edns": 0, "payload": payload, "options": [dns.edns.GenericOption(COOKIE, CLIENT)]}
            some = [raw(server, f"{name}.{zone}.", rdtype, **options) for zone in ("with.test", "sans.test")]
            (with_cookie, one), (sans, other) = some
            assert bool(with_cookie.flags & dns.flags.TC) == bool(sans.flags & dns.flags.TC), (name, payload)
            assert [len(rrset) for rrset in with_cookie.answer] == [len(rrset) for rrset in sans.answer], (name, payload)
            assert not sans.options
            # What is nearly too large is compressed to make room for the option.
            assert with_cookie.options or other + 28 > payload, (name, payload, other)
            assert one <= payload
            carried.add((bool(with_cookie.options), bool(sans.flags & dns.flags.TC)))
    assert carried >= {(True, False), (False, False), (False, True)}


def raw(server: Server, name: str, rdtype: str, **options: object) -> tuple[dns.message.Message, int]:
    """The reply and its octets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(10)
        one.sendto(dns.message.make_query(name, rdtype, **options).to_wire(), ("127.0.0.1", server.port))
        octets = one.recv(65535)
    return dns.message.from_wire(octets), len(octets)


# ---- other servers and clients ----

NAMED = """
options {{
    directory "{dir}";
    pid-file none;
    session-keyfile "{dir}/session.key";
    managed-keys-directory "{dir}";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    require-server-cookie yes;
    cookie-algorithm siphash24;
    cookie-secret "{secret}";
}};
controls {{ }};
"""


def test_cookies_of_bind(start, tmp_path: Path) -> None:
    """BIND and fastdns with one secret behind one address: each accepts the other's cookies."""
    server = start(FILE, "require")
    port = free_port()
    config = tmp_path / "named.conf"
    config.write_text(NAMED.format(dir=tmp_path, port=port, secret=SECRETS[0]))
    with (tmp_path / "named.log").open("wb") as log:
        command = [program("named"), "-f", "-n", "1", "-c", str(config)]
        named = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
    try:

        def theirs(cookie: bytes) -> tuple[int, bytes | None]:
            try:
                return ask(server, cookie, port=port, timeout=1)
            except (OSError, dns.exception.Timeout):
                return -1, None

        until(lambda: theirs(CLIENT)[0] == BADCOOKIE)
        cookie = theirs(CLIENT)[1]
        assert cookie == made(SECRETS[0], int.from_bytes(cookie[12:16], "big"))
        assert ask(server, cookie) == (dns.rcode.NOERROR, cookie)
        ours = ask(server)[1]
        assert theirs(ours)[0] == dns.rcode.REFUSED  # it serves no zone; with a bad cookie it says BADCOOKIE
        assert theirs(CLIENT + secrets.token_bytes(16))[0] == BADCOOKIE
    finally:
        named.terminate()
        named.wait(10)


def test_dig_and_kdig(start) -> None:
    server = start("require")
    words = ["@127.0.0.1", "-p", str(server.port)]
    dig = run(program("dig"), *words, "example.org")
    # It asks again with the cookie of BADCOOKIE.
    assert "status: NOERROR" in dig
    assert "(good)" in dig
    kdig = run(program("kdig"), *words, "+cookie", "example.org")
    assert "status: NOERROR" in kdig
    assert "WARNING" not in kdig


def test_verified_clients_have_no_rate(serve) -> None:
    server = serve(corefile("require").replace("    cookies", "    rrl {\n        responses-per-second 0.001\n        slip-ratio 1\n    }\n    cookies"))
    first = ask(server)
    assert first[0] == BADCOOKIE
    for _ in range(5):
        reply = server.query("example.org.", use_edns=0, options=[dns.edns.GenericOption(COOKIE, first[1])])
        assert (reply.rcode(), bool(reply.flags & dns.flags.TC)) == (dns.rcode.NOERROR, False)
    # Those without are limited, BADCOOKIE itself as an error.
    got = [server.query("example.org.", use_edns=0, options=[dns.edns.GenericOption(COOKIE, CLIENT)]) for _ in range(2)]
    assert all(reply.flags & dns.flags.TC and reply.rcode() == BADCOOKIE for reply in got)


# ---- the Corefile ----


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cookies", ("", False)),
        ("cookies {\n require\n}", ("", True)),
        ("cookies {\n secret /a/b\n}", ("/a/b", False)),
    ],
)
def test_syntax(text: str, wanted: tuple[str, bool]) -> None:
    assert parse(Controller.of(text)) == wanted


@pytest.mark.parametrize(
    "text", ["cookies x", "cookies {\n secret\n}", "cookies {\n secret a b\n}", "cookies {\n require x\n}", "cookies {\n other\n}", "cookies\ncookies"]
)
def test_errors(text: str) -> None:
    with pytest.raises(CorefileError):
        parse(Controller.of(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "secrets: 0 secrets; a file has one or 2"),
        ("\n".join([*SECRETS, "00" * 16]), "secrets: 3 secrets; a file has one or 2"),
        (SECRETS[0][:-1], "secrets:1: not a secret of 32 hexadecimal digits"),
        (f"# a\n\n{SECRETS[0]}00", "secrets:3: not a secret of 32 hexadecimal digits"),
        ("password", "secrets:1: not a secret of 32 hexadecimal digits"),
    ],
)
def test_files_that_are_refused(serve, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "secrets"
    path.write_text(text)
    with pytest.raises(ValueError, match="secret") as caught:
        read_secrets(str(path))
    assert str(caught.value) == message
    server = serve(corefile(f"secret {path}"), wait=False)
    assert server.exit_status() == 1
    assert message in server.log()
    assert not text or text not in server.log()
