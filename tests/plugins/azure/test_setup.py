"""azure: its directive, and record sets of Azure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fastdns.corefile import CorefileError
from fastdns.plugins.azure.api import rows
from fastdns.plugins.azure.settings import Place, parse
from fastdns.telemetry import log_line
from tests.directives import directives

GOOD = """
azure
azure group:example.org { subscription s }
azure group:example.org { subscription s; tenant abc; client abc; secret abc }
azure group:example.org { subscription s; environment AzurePublicCloud }
azure group:example.org { subscription s; environment azureusgovernmentcloud }
azure group:example.org { subscription s; access private }
azure group:example.org { subscription s; fallthrough }
azure group:example.org { subscription s; fallthrough example.org; refresh 90; snapshot . }
azure group:example.org group:example.net other:example.org { subscription s }
""".strip().splitlines()

WRONG_COUNT = "Wrong argument count or unexpected line ending after '%s'"
BAD = {
    "azure example.org": 'invalid resource group/zone: "example.org"',
    "azure :example.org": 'invalid resource group/zone: ":example.org"',
    "azure group:": 'invalid resource group/zone: "group:"',
    "azure group:a.org group:a.org": 'conflicting zone: "group:a.org"',
    "azure group:a.org { tenant }": WRONG_COUNT % "tenant",
    "azure group:a.org { client }": WRONG_COUNT % "client",
    "azure group:a.org { secret }": WRONG_COUNT % "secret",
    "azure group:a.org { subscription }": WRONG_COUNT % "subscription",
    "azure group:a.org { environment }": WRONG_COUNT % "environment",
    "azure group:a.org { access }": WRONG_COUNT % "access",
    "azure group:a.org { access foo }": "invalid access value: can be public/private, found: foo",
    "azure group:a.org { environment no }": r'cannot set azure environment: "autorest/azure: There is no cloud environment matching the name \"NO\""',
    "azure group:a.org { environment AzureStackCloud }": 'cannot set azure environment: "open : no such file or directory"',
    "azure group:a.org { wat }": 'unknown property: "wat"',
    "azure group:a.org { refresh 0 }": 'refresh interval must be greater than 0: "0s"',
    "azure group:a.org": "no subscription",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_SUBSCRIPTION_ID", "AZURE_ENVIRONMENT_FILEPATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", GOOD)
def test_good(text: str) -> None:
    parse(directives(text))


@pytest.mark.parametrize("text", BAD)
def test_bad(text: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(directives(text))
    assert BAD[text] in str(caught.value)


def test_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "s")
    settings = parse(directives("azure A:Example.ORG. { access private }\nazure b:example.org { environment AzureChinaCloud }"))
    assert settings.places == [Place("A", "example.org", private=True), Place("b", "example.org")]
    assert (settings.subscription, settings.refresh) == ("s", 60)
    assert settings.environment.manager == "https://management.chinacloudapi.cn"


STACKS = {
    "[]": "is not an object of JSON",
    "{}": "has no resourceManagerEndpoint and no activeDirectoryEndpoint",
    '{"resourceManagerEndpoint": "https://x", "activeDirectoryEndpoint": 1}': "has no activeDirectoryEndpoint",
    "{": "Expecting property name",
}


@pytest.mark.parametrize("text", STACKS)
def test_a_stack_that_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stack.json"
    file.write_text(text)
    monkeypatch.setenv("AZURE_ENVIRONMENT_FILEPATH", str(file))
    with pytest.raises(CorefileError) as caught:
        parse(directives("azure { environment AzureStackCloud }"))
    assert STACKS[text] in str(caught.value)


SKIPPED: dict[str, dict[str, Any]] = {
    "KeyError('fqdn')": {"TTL": 1, "ARecords": [{"ipv4Address": "192.0.2.1"}]},
    "KeyError('ipv4address')": {"TTL": 1, "fqdn": "a.", "ARecords": [{}]},
    "failed to parse resource record: a TXT record of 0 octets": {"TTL": 1, "fqdn": "a.", "TXTRecords": [{"value": []}]},
    "failed to parse resource record: a TXT record of 65792 octets": {"TTL": 1, "fqdn": "a.", "TXTRecords": [{"value": ["x" * 255] * 257}]},
}


@pytest.mark.parametrize("text", SKIPPED)
def test_what_is_left_out(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(log_line, "put", lambda *line: lines.append(log_line.compose(*line).decode()))
    assert list(rows(SKIPPED[text])) == []
    assert lines == [f"[WARNING] plugin/azure: Failed to process resource record set: {text}"]
