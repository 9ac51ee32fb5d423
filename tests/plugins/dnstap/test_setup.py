"""dnstap: what the Corefile may say."""

from __future__ import annotations

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.dnstap import setup
from fastdns.plugins.dnstap.endpoint import Endpoint
from fastdns.setup import Controller


@pytest.mark.parametrize(
    "text",
    [
        "dnstap /tmp/dnstap.sock",
        "dnstap /tmp/dnstap.sock full",
        "dnstap /tmp/dnstap.sock full 1024 4096",
        "dnstap /tmp/dnstap.sock whatever 1 1",
        "dnstap unix:///tmp/dnstap.sock full",
        "dnstap tcp://127.0.0.1:6000 full 2 3",
        "dnstap tls://example.com:6000 {\n skipverify\n}",
        'dnstap /tmp/dnstap.sock {\n identity NAME\n version VER\n extra "{name}"\n}',
        "dnstap listen tcp://127.0.0.1:6000 full",
        "dnstap listen tls://127.0.0.1:6000 {\n tls cert key\n}",
        "dnstap listen tls://127.0.0.1:6000 {\n tls cert key ca\n skipverify\n}",
        "dnstap a\ndnstap b",
    ],
)
def test_good(text: str) -> None:
    controller = Controller.of(text)
    setup(controller)
    assert [handler.name for handler in controller.config.handlers] == ["dnstap"] * text.count("dnstap ")


WRONG = r"Testfile:\d - Error during parsing: "


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dnstap", WRONG + "Wrong argument count or unexpected line ending after 'dnstap'"),
        ("dnstap listen", WRONG + "dnstap listen requires an endpoint argument"),
        ("dnstap a full x", WRONG + r'dnstap: invalid MultipleTcpWriteBuf "x": strconv.Atoi: parsing "x": invalid syntax'),
        ("dnstap a full 0", WRONG + r"dnstap: MultipleTcpWriteBuf must be between 1 and 1024 \(MiB units\): 0"),
        ("dnstap a full 1025", WRONG + r"dnstap: MultipleTcpWriteBuf must be between 1 and 1024 \(MiB units\): 1025"),
        ("dnstap a full 1 -1", WRONG + r"dnstap: MultipleQueue must be between 1 and 4096 \(x10k messages\): -1"),
        ("dnstap a full 1 4097", WRONG + r"dnstap: MultipleQueue must be between 1 and 4096 \(x10k messages\): 4097"),
        ("dnstap a full 1 y", WRONG + r'dnstap: invalid MultipleQueue "y": '),
        ("dnstap a {\n tls cert key\n}", WRONG + "tls directive only valid for listeners"),
        ("dnstap listen a {\n tls cert\n}", WRONG + "tls requires cert and key file paths"),
        ("dnstap a {\n identity\n}", WRONG + "Wrong argument count"),
        ("dnstap a {\n version\n}", WRONG + "Wrong argument count"),
        ("dnstap a {\n extra\n}", WRONG + "Wrong argument count"),
        ("dnstap a {\n identity x y\n}", WRONG + "unknown property 'y'"),
        ("dnstap a {\n unknown\n}", WRONG + "unknown property 'unknown'"),
        ("dnstap a {\n identity " + "x" * 9000 + "\n}", "identity and version are longer"),
        ("dnstap tcp://[::1", WRONG + "Wrong argument count"),
    ],
)
def test_bad(text: str, error: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=error):
        setup(Controller.of(text))


@pytest.mark.parametrize(
    ("text", "protocol", "place"),
    [
        ("/tmp/x", "unix", "/tmp/x"),
        ("unix:///tmp/x", "unix", "/tmp/x"),
        ("x.sock", "unix", "x.sock"),
        ("tcp://127.0.0.1:6000/path", "tcp", "127.0.0.1:6000"),
        ("tls://[::1]:6000", "tls", "[::1]:6000"),
    ],
)
def test_endpoints(text: str, protocol: str, place: str) -> None:
    assert Endpoint.parse(text) == (protocol, place)
