"""What a dnssec directive may say, and which keys it takes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import boto3
import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.dnssec import parse
from fastdns.plugins.dnssec.keys import key_tag
from fastdns.setup import Controller
from tests.dnskeys import make_key
from tests.moto import run_moto


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_key(tmp_path, "example.org.", name="Kexample")
    make_key(tmp_path, "example.org.", flags=256, name="Kzone")
    make_key(tmp_path, "sub.example.org.", name="Ksub")
    make_key(tmp_path, "example.net.", name="Knet")
    (tmp_path / "Kodd.key").write_text("example.org. IN A 192.0.2.1\n")
    (tmp_path / "Kempty.key").write_text("; nothing\n")
    (tmp_path / "Kbad.key").write_text("example.org. IN DNSKEY 257 3\n")
    for name in ("Kodd", "Kempty", "Kbad"):
        (tmp_path / f"{name}.private").write_text((tmp_path / "Kexample.private").read_text())
    (tmp_path / "Klonely.key").write_text((tmp_path / "Kexample.key").read_text())
    for name, text in {
        "Kmixed": (tmp_path / "Kzone.private").read_text(),
        "Kform": "nothing\n",
        "Kold": "Private-key-format: v2.0\nAlgorithm: 13\n",
        "Kalgorithm": "Private-key-format: v1.3\nAlgorithm: 8 (RSASHA256)\n",
        "Kbase64": "Private-key-format: v1.3\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: ***\n",
        "Kzero": "Private-key-format: v1.3\nAlgorithm: 13 (ECDSAP256SHA256)\nPrivateKey: AA==\n",
    }.items():
        (tmp_path / f"{name}.key").write_text((tmp_path / "Kexample.key").read_text())
        (tmp_path / f"{name}.private").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "zones", "keys", "capacity", "pace"),
    [
        ("dnssec", ["example.org."], [], 10000, 5000),
        ("dnssec a.org B.org", ["a.org.", "b.org."], [], 10000, 5000),
        ("dnssec {\n key file DIR/Kexample\n}", ["example.org."], [257], 10000, 5000),
        ("dnssec {\n key file DIR/Kexample.key DIR/Kzone.private\n cache_capacity 100\n}", ["example.org."], [257, 256], 100, 5000),
        ("dnssec {\n key file DIR/Kexample\n key file DIR/Kzone\n signatures_per_second 7\n}", ["example.org."], [257, 256], 10000, 7),
        ("dnssec x.example.org {\n key file DIR/Kexample\n}", ["x.example.org."], [257], 10000, 5000),
        ("dnssec {\n key other\n}", ["example.org."], [], 10000, 5000),
    ],
)
def test_properties(folder: Path, text: str, zones: list[str], keys: list[int], capacity: int, pace: int) -> None:
    settings = parse(Controller.of(text.replace("DIR", str(folder)), ["example.org"]))
    assert (settings.zones, [key.flags for key in settings.keys], settings.capacity, settings.pace) == (zones, keys, capacity, pace)


def test_below_root(folder: Path) -> None:
    controller = Controller.of("dnssec {\n key file Kexample\n}", ["example.org"])
    controller.config.root = str(folder)
    assert len(parse(controller).keys) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dnssec\ndnssec", "this plugin can only be used once per Server Block"),
        ("dnssec {\n foo\n}", "Testfile:2 - Error during parsing: unknown property 'foo'"),
        ("dnssec {\n key\n}", "Wrong argument count or unexpected line ending after 'key'"),
        ("dnssec {\n key file\n}", "Wrong argument count or unexpected line ending after 'file'"),
        ("dnssec {\n key other x\n}", "unknown property 'x'"),
        ("dnssec {\n cache_capacity\n}", "Wrong argument count"),
        ("dnssec {\n cache_capacity x\n}", 'strconv.Atoi: parsing "x": invalid syntax'),
        ("dnssec {\n signatures_per_second 0\n}", "signatures_per_second must be between 1 and 1000000: 0"),
        ("dnssec {\n key file DIR/none\n}", "^open DIR/none.key: no such file or directory$"),
        ("dnssec {\n key file DIR/Klonely\n}", "^open DIR/Klonely.private: no such file or directory$"),
        ("dnssec {\n key file DIR/Kodd\n}", "^no public key found$"),
        ("dnssec {\n key file DIR/Kempty\n}", "^no public key found$"),
        ("dnssec {\n key file DIR/Kbad\n}", r"DIR/Kbad\.key: dns: "),
        ("dnssec {\n key file DIR/Kmixed\n}", r"^private key in DIR/Kmixed\.private is not that of DIR/Kmixed\.key$"),
        ("dnssec {\n key file DIR/Kform\n}", "^dns: bad private key$"),
        ("dnssec {\n key file DIR/Kold\n}", "^dns: bad private key$"),
        ("dnssec {\n key file DIR/Kalgorithm\n}", r"private key in DIR/Kalgorithm\.private has algorithm 8, not 13"),
        ("dnssec {\n key file DIR/Kbase64\n}", "^dns: bad private key$"),
        ("dnssec {\n key file DIR/Kzero\n}", "^dns: bad private key$"),
        ("dnssec {\n key file DIR/Knet\n}", r"^key example\.net\. \(keyid: \d+\) can not sign any of the zones$"),
        ("dnssec {\n key file DIR/Ksub\n}", r"^key sub\.example\.org\. \(keyid: \d+\) can not sign any of the zones$"),
    ],
)
def test_errors(folder: Path, text: str, message: str) -> None:
    with pytest.raises((CorefileError, ValueError), match=message.replace("DIR", str(folder))):
        parse(Controller.of(text.replace("DIR", str(folder)), ["example.org"]))


def test_key_tags() -> None:
    """RFC 4034 5.4's example."""
    key = "AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMmmAphXdvxegXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9Xzc"
    import base64

    rdata = b"\x01\x00\x03\x05" + base64.b64decode(key + "nOf+EPbtG9DMBmADjFDc2w/rljwvFw==")
    assert key_tag(rdata) == 60485


def test_secrets_of_aws(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "dnssec {\n key aws_secretsmanager one two\n}"
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(CorefileError, match="^key aws_secretsmanager needs the Python package boto3: the image has it in its tag -clouds, "):
        parse(Controller.of(text, ["example.org"]))
    monkeypatch.undo()
    environment = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-west-1"}
    with run_moto(tmp_path) as url:
        for name, value in (environment | {"AWS_ENDPOINT_URL": url}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        client = boto3.client("secretsmanager")
        for name, file in (("one", "Kexample"), ("two", "Kzone")):
            texts = {"key": (folder / f"{file}.key").read_text(), "private": (folder / f"{file}.private").read_text()}
            client.create_secret(Name=name, SecretString=json.dumps(texts))
        assert [key.flags for key in parse(Controller.of(text, ["example.org"])).keys] == [257, 256]
        client.put_secret_value(SecretId="two", SecretString="{}")
        with pytest.raises(CorefileError, match="^secret two: KeyError: 'key'$"):
            parse(Controller.of(text, ["example.org"]))
        with pytest.raises(CorefileError, match="^secret three: ResourceNotFoundException: "):
            parse(Controller.of(text.replace("two", "three"), ["example.org"]))
