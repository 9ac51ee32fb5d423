"""Addresses as text, read natively, beside those of Python's ipaddress: a pod's is one of them."""

from __future__ import annotations

import ipaddress
import random

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.objects import give_list, pod

VALID = ["0.0.0.0", "255.255.255.255", "10.0.0.1", "192.0.2.77", "::", "::1", "2001:db8::8:1", "fe80::1", "::ffff:192.0.2.1"]
VALID += ["1:2:3:4:5:6:7:8", "64:ff9b::10.1.2.3"]
OTHERS = ["", ".", "1.2.3", "1.2.3.4.", ".1.2.3.4", "1.2.3.4.5", "01.2.3.4", "1.2.3.04", "00.0.0.0", "256.0.0.1", "1.2.3.999"]
OTHERS += ["1..2.3", "1.2.3.4 ", " 1.2.3.4", "1.2.3.-4", "0x1.2.3.4", "1,2,3,4", "1.2.3.4\0", "::1\0", "fe80::1%eth0", ":::"]
OTHERS += ["1::2::3", "1:2:3:4:5:6:7", "12345::", "g::", "::1.2.3", "0" * 60, "1.2.3.4/32", "\u0663.1.1.1"]


def read(texts: list[str]) -> list[tuple[int, bytes]]:
    """Family, 0 for none, and octets of each."""
    recorder = Recorder()
    give_list(recorder, Kind.POD, *[pod(f"shop/pod-{number}", text) for number, text in enumerate(texts)])
    found = recorder.objects(Kind.POD)
    return [found["shop", f"pod-{number}"]["ip"][1:] for number in range(len(texts))]


def wanted(text: str) -> tuple[int, bytes]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return 0, b""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return 0, b""
        address = address.ipv4_mapped or address
    return address.version, address.packed


def test_addresses_are_those_of_ipaddress() -> None:
    rng = random.Random(1)
    texts = VALID + OTHERS
    for _ in range(5000):
        text = list(rng.choice(VALID))
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text) + 1)
            text[at : at + rng.randrange(2)] = rng.choice(["", ".", ":", "0", "2", "25", "f", "\0", "%", " "])
        texts.append("".join(text))
    assert read(texts) == [wanted(text) for text in texts]
    assert all(family for family, _ in read(VALID))
    assert not any(family for family, _ in read(OTHERS))
