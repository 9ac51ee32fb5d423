"""Texts that are no Corefile, orders that must hold, and patterns that must not run away."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.expression.regex import compile as compile_pattern
from fastdns.server.configuration import Configuration
from fastdns.server.source import Source
from fastdns.setup import registry

SEED = b"""(snippet) {
    errors
}
.:1053 example.org:1053 {
    import snippet
    log . "{remote} {type}" {
        class denial
    }
    hosts /dev/null {
        10.0.0.1 a.example.org  # a comment
        fallthrough
    }
    cache 30 {
        success 100 "50"
    }
    whoami
}
"""


@pytest.mark.parametrize("seed", range(6))
def test_corefile_of_any_octets(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: mutated Corefiles are set up or refused, quickly, with one kind of error."""
    monkeypatch.chdir(tmp_path)
    source = random.Random(seed)
    for _ in range(150):
        octets = bytearray(SEED)
        for _ in range(source.choice([1, 2, 5, 20])):
            at = source.randrange(len(octets))
            kind = source.randrange(4)
            if kind == 0:
                octets[at] = source.randrange(256)
            elif kind == 1:
                del octets[at : at + source.randrange(1, 10)]
            elif kind == 2:
                octets[at:at] = source.choice(
                    [b"{", b"}", b'"', b"\\", b"\n", b"{$PATH}", b"import ", b"import *\n", b"\0", b"{%x%}", b"\xff\xfe", b"#", b"\r"]
                )
            else:
                octets[at:at] = octets[source.randrange(len(octets)) :][: source.randrange(1, 80)]
        start = time.process_time()
        try:
            Configuration(Source(bytes(octets), "Corefile"), "1053")
        except CorefileError as error:
            message = str(error)
            assert message
        assert time.process_time() - start < 2


def test_CVE_2026_26017_order_of_directives() -> None:
    """GHSA-c9v3: names are rewritten before they are judged, and judged before they are looked up in a cache."""
    order = registry.in_order()
    places = {name: order.index(name) for name in ("rewrite", "autopath", "acl", "cache", "hosts", "kubernetes", "file", "forward")}
    assert sorted(places, key=lambda name: places[name]) == ["rewrite", "autopath", "acl", "cache", "hosts", "kubernetes", "file", "forward"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(.*)\\.(.*)\\.(.*)\\.svc",
        "^(.*)-(.*)-(.*)$",
        "a+a+a+a+a+b",
        "([^.]+)\\.([^.]+)\\.([^.]+)\\.([^.]+)\\.x",
        "(a|aa)+$",
        "(a|a?)+$",
        "(.*a){12}$",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(x+x+)+y",
    ],
)
def test_patterns_are_linear(pattern: str) -> None:
    """Rules of a Corefile against names of 255 octets: no pattern takes a server down."""
    try:
        rule = compile_pattern(pattern)
    except ValueError:
        return  # refused: as good
    for name in ("a" * 254 + "!", "a." * 127, "-" * 255, "x" * 255):
        start = time.thread_time()
        rule.search(name)
        assert time.thread_time() - start < 1
