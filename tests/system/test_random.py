"""ids, ports and probe names must not be guessable (CVE-2019-19794)."""

import itertools
import os

from fastdns.system.random import Generator, keystream


def test_keystream_is_chacha20() -> None:
    """The test vectors of RFC 8439, appendix A.1 (those with a nonce of zero)."""
    assert keystream(bytes(32), 0).hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert keystream(bytes(32), 1).hex().startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed")
    assert keystream(bytes(31) + b"\x01", 1).hex().startswith("3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a")


def test_a_million_ids_pass_chi_squared_and_serial_correlation() -> None:
    """CVE-2019-19794: query ids come from a generator that nobody can continue."""
    generator = Generator()
    n = 1_000_000
    ids = [generator.next() & 0xFFFF for _ in range(n)]
    counts = [0] * 256
    for number in ids:
        counts[number >> 8] += 1
    expected = n / 256
    chi_squared = sum((count - expected) ** 2 / expected for count in counts)
    assert 130 < chi_squared < 420  # 255 degrees of freedom: 6 sigma either way
    mean = 32767.5
    covariance = sum((a - mean) * (b - mean) for a, b in itertools.pairwise(ids)) / n
    assert abs(covariance / (65536**2 / 12)) < 0.006


def test_below_is_below() -> None:
    generator = Generator()
    seen = {generator.below(5) for _ in range(500)}
    assert seen == {0, 1, 2, 3, 4}


def test_two_generators_differ() -> None:
    assert [Generator().next() for _ in range(4)] != [Generator().next() for _ in range(4)]


def test_a_child_does_not_repeat_its_parent() -> None:
    generator = Generator()
    generator.next()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"".join(generator.next().to_bytes(4, "big") for _ in range(8)))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reader, 32)
    os.close(reader)
    os.close(writer)
    assert theirs != b"".join(generator.next().to_bytes(4, "big") for _ in range(8))
