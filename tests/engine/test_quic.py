"""The module that is linked with quiche and BoringSSL, beside the OpenSSL of the same process."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import program

library = pytest.importorskip("fastdns.engine.quic.library", reason="needs make quic")


def symbols(kind: str) -> set[str]:
    done = subprocess.run([program("nm"), "-D", kind, library.__file__], text=True, capture_output=True, check=True)
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}


def test_it_shows_nothing_but_its_own_entry() -> None:
    assert symbols("--defined-only") == {"PyInit_library"}


def test_it_takes_nothing_of_another_openssl() -> None:
    """Two libraries with the same names would call each other's functions."""
    taken = {name for name in symbols("--undefined-only") if re.match(r"(SSL|EVP|CRYPTO|BIO|X509|RSA|EC|HMAC|RAND)_", name)}
    assert taken == set()


def test_it_is_linked_with_no_library_of_tls() -> None:
    assert not re.search(r"lib(ssl|crypto)", subprocess.run(["ldd", library.__file__], text=True, capture_output=True, check=True).stdout)
    assert Path(library.__file__).stat().st_size < 4 << 20
