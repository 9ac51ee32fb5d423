"""azure: a server beside an Azure that behaves, and one that does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.query
import dns.zone
import pytest

from tests.certificates import write_certificates
from tests.cloud import Fault, cut, slow
from tests.plugins.azure.api import BROKEN, CLIENT, DENIED, SECRET, SUBSCRIPTION, TENANT, THROTTLED, Azure, RecordSet, private, public, soa
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

PUBLIC: list[RecordSet] = [
    public("example.org.", 172800, NSRecords=[{"nsdname": "ns1-01.azure-dns.com."}]),
    public("example.org.", 3600, SOARecord=soa("minimumTTL")),
    public("a.example.org.", 300, ARecords=[{"ipv4Address": "192.0.2.1"}, {"ipv4Address": "192.0.2.2"}]),
    public("a.example.org.", 300, AAAARecords=[{"ipv6Address": "2001:db8::1"}]),
    public("a.example.org.", 60, TXTRecords=[{"value": ["in", 'two "pieces"', "\\052"]}, {"value": ["l" * 300]}]),
    public("example.org.", 60, MXRecords=[{"preference": 10, "exchange": "mail.example.org"}]),
    public("_sip._tcp.example.org.", 60, SRVRecords=[{"priority": 1, "weight": 2, "port": 5060, "target": "a.example.org"}]),
    public("ptr.example.org.", 60, PTRRecords=[{"ptrdname": "host.example.net"}]),
    public("caa.example.org.", 60, caaRecords=[{"flags": 0, "tag": "issue", "value": "ca.example.net"}]),
    public("*.wild.example.org.", 60, ARecords=[{"ipv4Address": "192.0.2.3"}]),
    public("www.example.org.", 60, CNAMERecord={"cname": "a.example.org"}),
    public("alias.example.org.", 60, ARecords=[], targetResource={"id": "/subscriptions/x/publicIPAddresses/y"}),
    public("child.example.org.", 60, NSRecords=[{"nsdname": "ns.child.example.org."}]),
    public("odd.example.org.", 60, ARecords=[{"ipv4Address": "odd"}]),
    public("odd.example.org.", 60, MXRecords=[{"exchange": "x."}]),
]
OTHER: list[RecordSet] = [
    private("example.org.", 3600, soaRecord=soa("minimumTtl")),
    private("only.example.org.", 10, aRecords=[{"ipv4Address": "10.0.0.1"}]),
    private("a.example.org.", 10, aRecords=[{"ipv4Address": "10.0.0.2"}]),
]
LARGE: list[RecordSet] = [
    private("example.net.", 3600, soaRecord=soa("minimumTtl")),
    *(private(f"h{number}.example.net.", 60, aRecords=[{"ipv4Address": f"10.0.{number >> 8}.{number & 255}"}]) for number in range(999)),
]

APPLICATION = f"tenant {TENANT}\n client {CLIENT}\n secret {SECRET}"

COREFILE = f"""
example.org:{{port}} example.net:{{port}} {{
    azure group:example.org {{
        {APPLICATION}
        subscription {SUBSCRIPTION}
        environment AzureStackCloud
        fallthrough child.example.org
        refresh 1s
    }}
    azure other:example.org other:Example.net. {{
        access private
    }}
    transfer {{
        to *
    }}
    template IN TXT child.example.org {{
        answer "{{{{ .Name }}}} 5 IN TXT below"
    }}
    prometheus 127.0.0.1:{{port2}}
    errors
}}
"""

#: One zone, with options.
SMALL = f"example.org:{{port}} {{\n azure group:example.org {{\n environment AZURESTACKCLOUD\n subscription {SUBSCRIPTION}\n refresh 1s\n %s\n }}\n}}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def running(certificates: Path) -> Iterator[Azure]:
    zones = {"dnsZones/group/example.org": PUBLIC, "privateDnsZones/other/example.org": OTHER, "privateDnsZones/other/example.net": LARGE}
    with Azure(certificates, zones) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: Azure) -> Azure:
    """With which nothing is wrong at first."""
    running.faults, running.away, running.elsewhere, running.lifetime = [], None, "", 3600
    return running


@pytest.fixture(scope="module")
def environment(running: Azure, certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of servers that ask the cloud, and no other one."""
    file = tmp_path_factory.mktemp("azure") / "stack.json"
    url = running.url
    file.write_text(json.dumps({"name": "x", "resourceManagerEndpoint": f"{url}/", "activeDirectoryEndpoint": url, "tokenAudience": url}))
    return {"AZURE_ENVIRONMENT_FILEPATH": str(file), "REQUESTS_CA_BUNDLE": str(certificates / "ca.pem")}


@pytest.fixture(scope="module")
def server(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"), COREFILE, env=environment)
    server.wait_started()
    yield server
    server.stop()


ANSWERS = {
    "addresses": ("a.example.org", "A", ["192.0.2.1", "192.0.2.2"]),
    "an address of IPv6": ("A.Example.org", "AAAA", ["2001:db8::1"]),
    "strings as they are": ("a.example.org", "TXT", [f'"{"l" * 255}" "{"l" * 45}"', r'"in" "two \"pieces\"" "\\052"']),
    "MX": ("example.org", "MX", ["10 mail.example.org."]),
    "SRV": ("_sip._tcp.example.org", "SRV", ["1 2 5060 a.example.org."]),
    "PTR": ("ptr.example.org", "PTR", ["host.example.net."]),
    "CAA": ("caa.example.org", "CAA", ['0 issue "ca.example.net"']),
    "NS": ("example.org", "NS", ["ns1-01.azure-dns.com."]),
    "SOA": ("example.net", "SOA", ["ns1-01.azure-dns.com. azuredns-hostmaster.microsoft.com. 1 3600 300 2419200 300"]),
    "a wildcard": ("x.wild.example.org", "A", ["192.0.2.3"]),
    "a CNAME record": ("www.example.org", "AAAA", ["2001:db8::1", "a.example.org."]),
    "an alias record": ("alias.example.org", "A", ["NXDOMAIN"]),
    "records that cannot be served": ("odd.example.org", "A", ["NXDOMAIN"]),
    "of the second zone": ("only.example.org", "A", ["10.0.0.1"]),
    "of the tenth page": ("h998.example.net", "A", ["10.0.3.230"]),
    "fallthrough from a delegation": ("x.child.example.org", "TXT", ['"below"']),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_answers(server: Server, what: str) -> None:
    name, kind, wanted = ANSWERS[what]
    assert sorted(server.answers(name, kind)) == sorted(wanted)


def test_the_ttl_is_that_of_the_record_set(server: Server) -> None:
    assert [rrset.ttl for rrset in server.query("a.example.org", "TXT", tcp=True).answer] == [60]


def test_transfer(server: Server) -> None:
    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.net", port=server.port, relativize=False), relativize=False, check_origin=False)
    assert sum(len(rdataset) for node in found.nodes.values() for rdataset in node) == 1_000


def test_a_record_set_that_cannot_be_served_is_logged(server: Server) -> None:
    server.wait_log(r"^\[WARNING\] plugin/azure: Failed to process resource record set: failed to parse resource record: dns: bad A A: 'odd'$")
    server.wait_log(r"^\[WARNING\] plugin/azure: Failed to process resource record set: KeyError\('preference'\)$")


def change(cloud: Azure, server: Server, name: str, address: str) -> None:
    """A record comes, and is served."""
    cloud.zones["dnsZones/group/example.org"] = [*PUBLIC, public(f"{name}.example.org.", 60, ARecords=[{"ipv4Address": address}])]
    server.until(f"{name}.example.org", "A", [address])


FAULTS: dict[str, Fault] = {"throttled": THROTTLED, "a server's error": BROKEN, "a slow reply": slow, "a cut reply": cut}


@pytest.mark.parametrize("what", FAULTS)
def test_a_request_that_fails_is_made_again(cloud: Azure, server: Server, what: str) -> None:
    start = len(server.log())
    cloud.faults = [FAULTS[what]]
    change(cloud, server, "new", f"192.0.2.{100 + list(FAULTS).index(what)}")
    assert "[ERROR]" not in server.log()[start:]


def test_a_token_that_is_refused_is_renewed(cloud: Azure, server: Server) -> None:
    start, given = len(server.log()), cloud.given
    cloud.tokens.clear()
    change(cloud, server, "renewed", "192.0.2.20")
    assert cloud.given > given
    assert "[ERROR]" not in server.log()[start:]


def test_the_last_version_is_served_while_the_cloud_is_away(cloud: Azure, server: Server) -> None:
    labels = f'{{id="{SUBSCRIPTION}/group",plugin="azure",zone="example.org."}}'
    page = server.ports["port2"]
    start = len(server.log())
    cloud.away = DENIED
    error = r"failed to list resource records for %s from azure: HTTP status 403 AuthorizationFailed: not you"
    wanted = " ".join(error % zone for zone in ("example.org", "example.org", "example.net"))
    line = rf"^\[ERROR\] plugin/azure: Failed to update zones \[example.org. example.net.\]: errors updating zones: \[{wanted}\]$"
    server.wait_log(line, start=start)
    assert server.answers("a.example.org", "AAAA") == ["2001:db8::1"]
    until(lambda: server.metric(page, f"fastdns_hosted_zone_failures_total{labels}") >= 1, "the metric")
    cloud.away = None
    change(cloud, server, "back", "192.0.2.21")


def test_a_next_page_elsewhere_does_not_get_the_token(cloud: Azure, server: Server) -> None:
    start = len(server.log())
    cloud.elsewhere = "https://127.0.0.2:1"
    server.wait_log(rf"for example.net from azure: the next page is not one of {cloud.url}, or was read before", start=start)
    cloud.elsewhere = ""
    change(cloud, server, "here", "192.0.2.22")


def test_nothing_secret_is_logged(server: Server) -> None:
    assert SECRET not in server.log()
    assert "token-that-is-secret" not in server.log()


# ---- credentials ----

#: What the Corefile says, and what the environment: URL and FILE become the cloud's and that of a token of Kubernetes.
NAMES = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": CLIENT}
CREDENTIALS = {
    "environment": ("", NAMES | {"AZURE_CLIENT_SECRET": SECRET}),
    "workload identity": ("", NAMES | {"AZURE_AUTHORITY_HOST": "URL", "AZURE_FEDERATED_TOKEN_FILE": "FILE"}),
    "managed identity": (f"client {CLIENT}", {"IDENTITY_ENDPOINT": "URL/msi/token", "IDENTITY_HEADER": SECRET}),
}


@pytest.mark.parametrize("what", CREDENTIALS)
def test_credentials(cloud: Azure, environment: dict[str, str], serve: Serve, what: str, tmp_path: Path) -> None:
    options, names = CREDENTIALS[what]
    (tmp_path / "assertion").write_text("of-kubernetes")
    filled = {name: value.replace("URL", cloud.url).replace("FILE", str(tmp_path / "assertion")) for name, value in names.items()}
    server = serve(SMALL % options, env=environment | filled)
    assert server.answers("a.example.org", "AAAA") == ["2001:db8::1"]
    assert SECRET not in server.log()
    assert "redential" not in server.log(), "what the library logs is not ours to show"


def test_tokens_that_expire_are_renewed(cloud: Azure, environment: dict[str, str], serve: Serve) -> None:
    cloud.lifetime = 1
    server = serve(SMALL % APPLICATION, env=environment)
    given = cloud.given
    change(cloud, server, "expired", "192.0.2.23")
    assert cloud.given > given


REFUSED = {
    "a zone that is not there": (f"{APPLICATION}\n access private", "HTTP status 404 ResourceNotFound: The Resource"),
    "another secret": (APPLICATION.replace(SECRET, "other-secret"), "Authentication failed: AADSTS7000215: Invalid client secret provided"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(cloud: Azure, environment: dict[str, str], serve: Serve, what: str) -> None:
    options, error = REFUSED[what]
    server = serve(SMALL % options, env=environment, wait=False)
    assert server.exit_status() == 1
    server.wait_log(rf"plugin/azure: errors updating zones: \[failed to list resource records for example.org from azure: {error}")
    assert "other-secret" not in server.log()


def test_no_credentials(cloud: Azure, environment: dict[str, str], serve: Serve) -> None:
    """Only those of the environment are looked for here: others would be at addresses of Azure's own."""
    server = serve(SMALL % "", env=environment | {"AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"}, wait=False)
    assert server.exit_status() == 1
    server.wait_log(r"plugin/azure: errors updating zones: \[failed to list resource records for example.org from azure: .*EnvironmentCredential")
    assert not [line for line in server.log().splitlines() if line.startswith(("EnvironmentCredential", "DefaultAzureCredential"))]
