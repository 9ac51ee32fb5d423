"""clouddns: a server beside a Google Cloud DNS that behaves, and one that does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dns.query
import dns.zone
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cloud import Fault, cut, slow
from tests.plugins.clouddns.api import BROKEN, DENIED, THROTTLED, Google, RecordSet, apex, record_set
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

PUBLIC: list[RecordSet] = [
    *apex("example.org."),
    record_set("a.example.org.", "A", 300, "192.0.2.1", "192.0.2.2"),
    record_set("a.example.org.", "TXT", 60, '"in \\"two\\"" "pieces \\\\052"', "alone"),
    record_set("svc.example.org.", "HTTPS", 60, "1 . alpn=h2"),
    record_set("*.wild.example.org.", "A", 60, "192.0.2.3"),
    record_set("www.example.org.", "CNAME", 60, "a.example.org"),
    record_set("far.example.org.", "CNAME", 60, "h7.example.net."),
    record_set("example.org.", "ALIAS", 60, "a.example.org."),
    record_set("odd.example.org.", "A", 60, "odd", "192.0.2.4"),
    {"name": "geo.example.org.", "type": "A", "ttl": 60, "routingPolicy": {"wrr": {"items": [{"weight": 1.0, "rrdatas": ["192.0.2.5"]}]}}},
]
PRIVATE: list[RecordSet] = [
    *apex("example.org."),
    record_set("only.example.org.", "A", 10, "10.0.0.1"),
    record_set("a.example.org.", "A", 10, "10.0.0.2"),
]
LARGE: list[RecordSet] = [
    *apex("example.net."),
    *(record_set(f"h{number}.example.net.", "A", 60, f"10.0.{number >> 8}.{number & 255}") for number in range(9_998)),
]

COREFILE = """
example.org:{{port}} example.net:{{port}} {{
    clouddns example.org.:project:public example.org.:project:private {{
        credentials {file}
        endpoint {url}
        fallthrough gone.example.org
        refresh 1s
    }}
    clouddns Example.net:project:large {{
        credentials {file}
        endpoint {url}/
    }}
    transfer {{
        to *
    }}
    template IN TXT gone.example.org {{
        answer "{{{{ .Name }}}} 5 IN TXT below"
    }}
    prometheus 127.0.0.1:{{port2}}
    errors
}}
"""

#: One zone, with options.
SMALL = "example.org:{{port}} {{\n clouddns example.org:project:{zone} {{\n endpoint {url}\n refresh 1s\n {options}\n }}\n}}"


@pytest.fixture(scope="module")
def running() -> Iterator[Google]:
    with Google({"project/public": PUBLIC, "project/private": PRIVATE, "project/large": LARGE}) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: Google) -> Google:
    """With which nothing is wrong at first."""
    running.faults, running.away, running.lifetime = [], None, 3600
    return running


@pytest.fixture(scope="module")
def key() -> str:
    made = rsa.generate_private_key(65537, 2048)
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


@pytest.fixture(scope="module")
def account(running: Google, key: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a service account."""
    file = tmp_path_factory.mktemp("google") / "account.json"
    file.write_text(json.dumps(service_account(running, key)))
    return file


def service_account(cloud: Google, key: str) -> dict[str, Any]:
    return {"type": "service_account", "client_email": "x@example.org", "private_key": key, "private_key_id": "1", "token_uri": f"{cloud.url}/token"}


@pytest.fixture(scope="module")
def server(running: Google, account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"), COREFILE.format(file=account, url=running.url))
    server.wait_started()
    yield server
    server.stop()


ANSWERS = {
    "addresses": ("A.Example.org", "A", ["192.0.2.1", "192.0.2.2"]),
    "text in pieces": ("a.example.org", "TXT", ['"alone"', r'"in \"two\"" "pieces \\052"']),
    "parameters": ("svc.example.org", "HTTPS", ['1 . alpn="h2"']),
    "a wildcard": ("x.wild.example.org", "A", ["192.0.2.3"]),
    "a CNAME record": ("www.example.org", "A", ["192.0.2.1", "192.0.2.2", "a.example.org."]),
    "a CNAME record to another zone": ("far.example.org", "A", ["10.0.0.7", "h7.example.net."]),
    "an alias record": ("example.org", "A", []),
    "the rest of a set that cannot be served": ("odd.example.org", "A", ["NXDOMAIN"]),
    "a routing policy": ("geo.example.org", "A", ["NXDOMAIN"]),
    "of the second zone": ("only.example.org", "A", ["10.0.0.1"]),
    "of the tenth page": ("h9997.example.net", "A", ["10.0.39.13"]),
    "fallthrough": ("x.gone.example.org", "TXT", ['"below"']),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_answers(server: Server, what: str) -> None:
    name, kind, wanted = ANSWERS[what]
    assert sorted(server.answers(name, kind)) == wanted


def test_transfer(server: Server) -> None:
    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.net", port=server.port, relativize=False), relativize=False)
    assert sum(len(rdataset) for node in found.nodes.values() for rdataset in node) == 10_000


def test_a_record_that_cannot_be_served_is_logged(server: Server) -> None:
    server.wait_log(r"^\[WARNING\] plugin/clouddns: Failed to process resource record set: failed to parse resource record: dns: bad A A: 'odd'$")


def change(cloud: Google, server: Server, name: str, address: str) -> None:
    """A record comes, and is served."""
    cloud.zones["project/public"] = [*PUBLIC, record_set(f"{name}.example.org.", "A", 60, address)]
    server.until(f"{name}.example.org", "A", [address])


FAULTS: dict[str, Fault] = {"throttled": THROTTLED, "a server's error": BROKEN, "a slow reply": slow, "a cut reply": cut}


@pytest.mark.parametrize("what", FAULTS)
def test_a_request_that_fails_is_made_again(cloud: Google, server: Server, what: str) -> None:
    start = len(server.log())
    cloud.faults = [FAULTS[what]]
    change(cloud, server, "new", f"192.0.2.{100 + list(FAULTS).index(what)}")
    assert "[ERROR]" not in server.log()[start:]


def test_a_token_that_is_refused_is_renewed(cloud: Google, server: Server) -> None:
    start, given = len(server.log()), len(cloud.ways)
    cloud.tokens.clear()
    change(cloud, server, "renewed", "192.0.2.20")
    assert len(cloud.ways) > given
    assert "[ERROR]" not in server.log()[start:]


def test_the_last_version_is_served_while_the_cloud_is_away(cloud: Google, server: Server) -> None:
    page = server.ports["port2"]
    start = len(server.log())
    cloud.away = DENIED
    error = r"failed to list resource records for example.org.:project:%s from gcp: HTTP status 403 PERMISSION_DENIED: not you"
    wanted = f"{error % 'public'} {error % 'private'}"
    server.wait_log(rf"^\[ERROR\] plugin/clouddns: Failed to update zones \[example.org.\]: errors updating zones: \[{wanted}\]$", start=start)
    assert server.answers("only.example.org") == ["10.0.0.1"]
    failures = 'fastdns_hosted_zone_failures_total{id="project:public",plugin="clouddns",zone="example.org."}'
    until(lambda: server.metric(page, failures) >= 1, "the metric")
    cloud.away = None
    change(cloud, server, "back", "192.0.2.21")


def test_nothing_secret_is_logged(server: Server) -> None:
    assert "token-that-is-secret" not in server.log()
    assert "PRIVATE KEY" not in server.log()


# ---- credentials ----


def external(cloud: Google, folder: Path) -> dict[str, Any]:
    (folder / "subject").write_text("of-kubernetes")
    pool = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"
    source = {"file": str(folder / "subject")}
    urn = "urn:ietf:params:oauth:token-type:jwt"
    return {"type": "external_account", "audience": pool, "subject_token_type": urn, "token_url": f"{cloud.url}/sts", "credential_source": source}


def test_an_instance(cloud: Google, serve: Serve, tmp_path: Path) -> None:
    host = cloud.url.removeprefix("http://")
    environment = {"GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path), "PATH": ""}
    server = serve(SMALL.format(zone="private", url=cloud.url, options=""), env=environment)
    assert server.answers("only.example.org") == ["10.0.0.1"]
    assert cloud.ways[-1] == "metadata"


def test_files(cloud: Google, key: str, serve: Serve, tmp_path: Path) -> None:
    """Of the Corefile and of the environment."""
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps(external(cloud, tmp_path)))
    server = serve(SMALL.format(zone="private", url=cloud.url, options=f"credentials {file}"))
    assert server.answers("only.example.org") == ["10.0.0.1"]
    assert cloud.ways[-1] == "sts"
    file.write_text(json.dumps(service_account(cloud, key)))
    server = serve(SMALL.format(zone="private", url=cloud.url, options=""), env={"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
    assert server.answers("only.example.org") == ["10.0.0.1"]
    assert cloud.ways[-1] == "jwt-bearer"


def test_tokens_that_expire_are_renewed(cloud: Google, account: Path, serve: Serve) -> None:
    cloud.lifetime = 1
    server = serve(SMALL.format(zone="public", url=cloud.url, options=f"credentials {account}"))
    given = len(cloud.ways)
    change(cloud, server, "expired", "192.0.2.22")
    assert len(cloud.ways) > given


def test_what_is_not_there_is_refused(cloud: Google, account: Path, serve: Serve) -> None:
    server = serve(SMALL.format(zone="none", url=cloud.url, options=f"credentials {account}"), wait=False)
    assert server.exit_status() == 1
    error = r"HTTP status 404 NOT_FOUND: The 'parameters.managedZone' resource named 'none' does not exist.$"
    server.wait_log(r"plugin/clouddns: \S+Corefile:6 - Error during parsing: failed to create plugin: " + error)
