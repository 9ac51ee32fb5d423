"""Digests and HMACs: the vectors of the standards, Python's own beside them, and libcrypto's copies and configurations."""

from __future__ import annotations

import hashlib
import hmac
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fastdns.system import digest
from fastdns.system.digest import KINDS, hash_of, hmac_of, same

#: RFC 2202 3 (SHA-1) and RFC 4231 4 (the others): hash, secret, data, code.
CODES = [
    ("sha1", b"\x0b" * 20, b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
    ("sha1", b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
    ("sha1", b"\xaa" * 20, b"\xdd" * 50, "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
    ("sha1", b"\xaa" * 80, b"Test Using Larger Than Block-Size Key - Hash Key First", "aa4ae5e15272d00e95705637ce8a3b55ed402112"),
    ("sha224", b"\x0b" * 20, b"Hi There", "896fb1128abbdf196832107cd49df33f47b4b1169912ba4f53684b22"),
    ("sha256", b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (
        "sha384",
        b"\x0b" * 20,
        b"Hi There",
        "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
    ),
    (
        "sha512",
        b"\x0b" * 20,
        b"Hi There",
        "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cdedaa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
    ),
    ("sha224", b"Jefe", b"what do ya want for nothing?", "a30e01098bc6dbbf45690f3a7e9e6d0f8bbea2a39e6148008fd05e44"),
    ("sha256", b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    ("sha256", b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (
        "sha256",
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
]

#: RFC 5155 appendix A: owner -> its hash by SHA-1, 12 further iterations, salt aabbccdd.
HASHED = {
    b"\7example\0": "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom",
    b"\1a\7example\0": "35mthgpgcu1qg68fab165klnsnk3dpvl",
    b"\2ai\7example\0": "gjeqe526plbf1g8mklp59enfd789njgi",
    b"\1*\1w\7example\0": "r53bq7cc2uvmubfu5ocmm6pers9tk9en",
}


@pytest.mark.parametrize(("kind", "secret", "data", "code"), CODES)
def test_codes_of_the_standards(kind: str, secret: bytes, data: bytes, code: str) -> None:
    assert hmac_of(kind, secret, [data]).hex() == code


@pytest.mark.parametrize(("owner", "text"), HASHED.items())
def test_hashed_owner_names_of_the_standard(owner: bytes, text: str) -> None:
    salt = bytes.fromhex("aabbccdd")
    digest = hash_of("sha1", owner + salt)
    for _ in range(12):
        digest = hash_of("sha1", digest + salt)
    digits = "0123456789abcdefghijklmnopqrstuv"
    number = int.from_bytes(digest, "big")
    assert "".join(digits[number >> shift & 31] for shift in range(155, -1, -5)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_every_length(kind: str) -> None:
    """Around each block's end and the padding's."""
    data = random.Random(1).randbytes(600)
    for length in range(len(data)):
        assert hash_of(kind, data[:length]) == hashlib.new(kind, data[:length]).digest(), length


@pytest.mark.parametrize("kind", KINDS)
def test_in_parts(kind: str) -> None:
    generator = random.Random(2)
    for _ in range(300):
        parts = [generator.randbytes(generator.choice([0, 1, 63, 64, 65, 127, 128, 129, 300])) for _ in range(generator.randrange(6))]
        secret = generator.randbytes(generator.choice([0, 1, 16, 63, 64, 65, 127, 128, 129, 500]))
        assert hmac_of(kind, secret, parts) == hmac.digest(secret, b"".join(parts), kind)


def test_a_long_message() -> None:
    data = random.Random(3).randbytes(70000)
    for kind in KINDS:
        assert hmac_of(kind, b"key", [data]) == hmac.digest(b"key", data, kind)


def test_comparison() -> None:
    octets = bytes(range(32))
    assert same(octets, bytes(octets))
    for at in range(32):
        for bit in range(8):
            other = bytearray(octets)
            other[at] ^= 1 << bit
            assert not same(octets, bytes(other))
    with pytest.raises(ValueError, match="different lengths"):
        same(b"a", b"ab")


def test_threads_have_contexts_of_their_own() -> None:
    """More threads than there are at once: their contexts end with them."""
    wrong: list[str] = []

    def run(seed: int) -> None:
        generator = random.Random(seed)
        for _ in range(50):
            kind, secret, data = generator.choice(list(KINDS)), generator.randbytes(20), generator.randbytes(100)
            if hash_of(kind, data) != hashlib.new(kind, data).digest() or hmac_of(kind, secret, [data]) != hmac.digest(secret, data, kind):
                wrong.append(kind)

    for batch in range(10):
        threads = [threading.Thread(target=run, args=(8 * batch + number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


# ---- the library ----

WITHOUT = """
openssl_conf = main
[main]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
"""


def python(code: str, *arguments: str | Path, **environment: str) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_hash_that_is_not_offered_is_named_at_set_up(tmp_path: Path) -> None:
    """A configuration that asks for FIPS where no such provider is there: an error, no crash."""
    (tmp_path / "openssl.cnf").write_text(WITHOUT)
    code = """
from fastdns.system.digest import DigestError, hash_of
from fastdns.index.zone import ZoneError
from fastdns.corefile import CorefileError
from fastdns.setup import Controller
from fastdns.plugins.tsig import setup
from tests.index.test_zone import draft, NSEC3PARAM
from fastdns.index.zone import Zone
for call in (
    lambda: hash_of("sha1", b""),
    lambda: setup(Controller.of("tsig {\\n secret a. MDEyMzQ1Njc4OWFiY2RlZg==\\n}")),
    lambda: draft(Zone("example.org."), [("example.org.", NSEC3PARAM, b"\\1\\0\\0\\0\\0")]),
):
    try:
        call()
    except (DigestError, ZoneError, CorefileError) as error:
        print(error)
"""
    first, second, third = python(code, OPENSSL_CONF=str(tmp_path / "openssl.cnf")).splitlines()
    assert first.startswith("libcrypto (OpenSSL 3.")
    assert first.endswith(") does not offer SHA-1")
    assert 'key "a.": libcrypto (OpenSSL 3.' in second
    assert second.endswith("does not offer HMAC with such a secret over SHA-1")
    assert third == "NSEC3 records for origin example.org. need SHA-1, which libcrypto does not offer"


def libcrypto() -> Path:
    """The copy that this process has for fastdns."""
    (found, *_) = {line.split(maxsplit=5)[5].strip() for line in Path("/proc/self/maps").read_text().splitlines() if "/libcrypto" in line}
    return Path(found)


def test_nothing_but_the_module_is_exported() -> None:
    """What libcrypto defines must not be found here by others."""
    table = subprocess.run(["nm", "-D", "--defined-only", digest.__file__], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in table.splitlines()] == ["PyInit_digest"]


def test_another_copy_of_libcrypto_may_be_there(tmp_path: Path) -> None:
    """A wheel brings a copy of its own under another name, beside the one of Python's modules."""
    library = libcrypto()
    former, name = library.name.encode(), library.name.replace("crypto", "cryptO").encode()
    (tmp_path / name.decode()).write_bytes(library.read_bytes().replace(former, name))
    module = tmp_path / Path(digest.__file__).name
    module.write_bytes(Path(digest.__file__).read_bytes().replace(former, name))
    code = """
import hashlib, hmac, importlib.machinery, importlib.util, ssl, sys, threading
loader = importlib.machinery.ExtensionFileLoader("fastdns.system.digest", sys.argv[1])
spec = importlib.util.spec_from_file_location("fastdns.system.digest", sys.argv[1], loader=loader)
module = importlib.util.module_from_spec(spec)
loader.exec_module(module)
ssl.create_default_context()
def run():
    for number in range(200):
        for kind in module.KINDS:
            data = bytes([number]) * number
            assert module.hash_of(kind, data) == hashlib.new(kind, data).digest()
            assert module.hmac_of(kind, b"secret", [data]) == hmac.digest(b"secret", data, kind)
threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
run()
print(sorted({line.split(maxsplit=5)[5].strip().rpartition("/")[2] for line in open("/proc/self/maps") if "/libcrypt" in line and ".so" in line}))
"""
    found = python(code, module, LD_LIBRARY_PATH=str(tmp_path))
    assert name.decode() in found
    assert library.name in found
