"""route53: a server beside a Route 53 that behaves, and one that does not."""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import dns.flags
import dns.query
import dns.rcode
import dns.rdatatype
import dns.zone
import pytest

from tests.cloud import cut, slow
from tests.moto import run_moto
from tests.plugins.route53.api import BROKEN, DENIED, THROTTLED, RecordSet, Route53, apex
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

SECRET = "wJalrXUtnFEMIbPxRfiCYEXAMPLEKEY"
#: Without the files and the instance of whoever runs the tests.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}

PUBLIC: list[RecordSet] = [
    *apex("example.org."),
    ("a.example.org.", "A", 300, ["192.0.2.1"]),
    ("a.example.org.", "TXT", 300, ['"in \\"two\\"" "pieces \\052"']),
    ("split.example.org.", "A", 300, ["192.0.2.2"]),
    ("nodata.example.org.", "TXT", 300, ['"x"']),
    ("alias.example.org.", "A", None, ["a.example.org."]),
    ("mix.example.org.", "A", 300, ["192.0.2.11"]),
    ("mix.example.org.", "A", 30, ["192.0.2.12"]),
    (r"\052.wild.example.org.", "A", 300, ["192.0.2.3"]),
    (r"_sip\137x.example.org.", "A", 300, ["192.0.2.4"]),
    ("www.example.org.", "CNAME", 300, ["a.example.org"]),
    ("far.example.org.", "CNAME", 300, ["h7.example.net."]),
    ("child.example.org.", "NS", 300, ["ns.child.example.org."]),
]
SECOND: list[RecordSet] = [
    *apex("example.org."),
    ("a.example.org.", "A", 300, ["192.0.2.99"]),
    ("only.example.org.", "A", 300, ["192.0.2.5"]),
    ("nodata.example.org.", "A", 300, ["192.0.2.98"]),
    ("host.child.example.org.", "A", 300, ["192.0.2.6"]),
]
LARGE: list[RecordSet] = [*apex("example.net."), *((f"h{number}.example.net.", "A", 60, [f"10.0.{number >> 8}.{number & 255}"]) for number in range(9_997))]

COREFILE = """
example.org:{{port}} example.net:{{port}} {{
    route53 example.org.:ZPUBLIC example.org.:ZSECOND {{
        aws_endpoint {url}
        fallthrough gone.example.org child.example.org
        refresh 1s
    }}
    route53 Example.net:ZLARGE {{
        aws_endpoint {url}
    }}
    transfer {{
        to *
    }}
    template IN TXT gone.example.org child.example.org {{
        answer "{{{{ .Name }}}} 5 IN TXT below"
    }}
    prometheus 127.0.0.1:{{port2}}
    errors
}}
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[Route53]:
    with Route53(ZPUBLIC=PUBLIC, ZSECOND=SECOND, ZLARGE=LARGE) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def server(cloud: Route53, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("route53"), COREFILE.format(url=cloud.url), env=ENVIRONMENT)
    server.wait_started()
    yield server
    server.stop()


ANSWERS = {
    "of the first zone": ("a.example.org", "A", ["192.0.2.1"]),
    "in capitals": ("A.Example.Org", "A", ["192.0.2.1"]),
    "of the second zone": ("only.example.org", "A", ["192.0.2.5"]),
    "text in pieces": ("a.example.org", "TXT", [r'"in \"two\"" "pieces *"']),
    "NODATA of the first zone": ("nodata.example.org", "A", []),
    "weights": ("mix.example.org", "A", ["192.0.2.11", "192.0.2.12"]),
    "a wildcard": ("x.y.wild.example.org", "A", ["192.0.2.3"]),
    "an alias record": ("alias.example.org", "A", ["NXDOMAIN"]),
    "a name with other characters": ("_sip_x.example.org", "A", ["NXDOMAIN"]),
    "a CNAME record in the zone": ("www.example.org", "A", ["192.0.2.1", "a.example.org."]),
    "a CNAME record to another zone": ("far.example.org", "A", ["10.0.0.7", "h7.example.net."]),
    "what the first zone delegates and the second one has": ("host.child.example.org", "A", ["192.0.2.6"]),
    "fallthrough": ("x.gone.example.org", "TXT", ['"below"']),
    "fallthrough from a delegation": ("x.child.example.org", "TXT", ['"below"']),
    "neither": ("x.example.org", "A", ["NXDOMAIN"]),
    "of the tenth page": ("h9996.example.net", "A", ["10.0.39.12"]),
    "of no zone": ("example.com", "A", ["REFUSED"]),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_answers(server: Server, what: str) -> None:
    name, kind, wanted = ANSWERS[what]
    assert server.answers(name, kind) == wanted


def test_sections(server: Server) -> None:
    reply = server.query("a.example.org")
    assert reply.flags & dns.flags.AA
    assert [rrset.ttl for rrset in reply.answer] == [300]
    reply = server.query("x.example.org")
    assert (reply.rcode(), reply.authority[0].rdtype) == (dns.rcode.NXDOMAIN, dns.rdatatype.SOA)


def test_transfer_gives_the_first_zone_whole(server: Server) -> None:
    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.net", port=server.port, relativize=False), relativize=False)
    assert sum(len(rdataset) for node in found.nodes.values() for rdataset in node) == 10_000
    found = dns.zone.from_xfr(dns.query.xfr("127.0.0.1", "example.org", port=server.port, relativize=False), relativize=False)
    assert found.get_rdataset("a.example.org.", "A").to_text().endswith("192.0.2.1")
    assert "only.example.org." not in found


FAULTS = {"throttled": THROTTLED, "a server's error": BROKEN, "a slow reply": slow}


@pytest.mark.parametrize("what", FAULTS)
def test_a_call_that_fails_is_made_again(cloud: Route53, server: Server, what: str) -> None:
    address = f"192.0.2.{100 + list(FAULTS).index(what)}"
    start = len(server.log())
    cloud.faults = [FAULTS[what]]
    cloud.zones["ZPUBLIC"] = [*PUBLIC, ("new.example.org.", "A", 300, [address])]
    server.until("new.example.org", "A", [address])
    assert "[ERROR]" not in server.log()[start:]


def test_a_cut_reply_changes_nothing(cloud: Route53, server: Server) -> None:
    start = len(server.log())
    cloud.faults = [cut] * 2
    cloud.zones["ZPUBLIC"] = [*PUBLIC, ("whole.example.org.", "A", 300, ["192.0.2.9"])]
    server.wait_log(r"Failed to update zones \[example.org.\]: errors updating zones: \[failed to list resource records for example.org.:Z", start=start)
    assert server.answers("a.example.org") == ["192.0.2.1"]
    server.until("whole.example.org", "A", ["192.0.2.9"])


def test_the_last_version_is_served_while_the_cloud_is_away(cloud: Route53, server: Server) -> None:
    failures = 'fastdns_hosted_zone_failures_total{id="ZPUBLIC",plugin="route53",zone="example.org."}'
    age = 'fastdns_hosted_zone_age_seconds{id="ZPUBLIC",plugin="route53",zone="example.org."}'
    page = server.ports["port2"]
    failed = server.metric(page, failures)
    start = len(server.log())
    cloud.away = DENIED
    error = r"failed to list resource records for example.org.:%s from route53: An error occurred \(AccessDenied\) when calling the \w+ operation: not you"
    wanted = f"{error % 'ZPUBLIC'} {error % 'ZSECOND'}"
    server.wait_log(rf"^\[ERROR\] plugin/route53: Failed to update zones \[example.org.\]: errors updating zones: \[{wanted}\]$", start=start)
    assert server.answers("a.example.org") == ["192.0.2.1"]
    until(lambda: server.metric(page, failures) >= failed + 1 and server.metric(page, age) > 1, "the metrics")
    cloud.zones["ZPUBLIC"] = [*PUBLIC, ("back.example.org.", "A", 300, ["192.0.2.7"])]
    cloud.away = None
    server.until("back.example.org", "A", ["192.0.2.7"])
    until(lambda: server.metric(page, age) < 5, "the age")


def test_nothing_secret_is_logged(server: Server) -> None:
    server.wait_log(r"Failed to process resource record set: failed to unescape `_sip\\137x.example.org.' name: invalid character: \\0137")
    assert SECRET not in server.log()


def test_a_folder_for_snapshots_that_cannot_be_used(cloud: Route53, serve: Serve, tmp_path: Path) -> None:
    """The zone is read and served; it is kept once that is possible, though its records have not changed."""
    folder = tmp_path / "kept"
    folder.write_text("x")
    options = f"aws_endpoint {cloud.url}\n snapshot {folder}\n refresh 1s"
    server = serve(f"example.org:{{port}} {{\n route53 example.org:ZSECOND {{\n {options}\n }}\n}}", env=ENVIRONMENT)
    assert server.answers("only.example.org") == ["192.0.2.5"]
    kept = folder / "db.example.org@route53-ZSECOND"
    server.wait_log(rf"^\[WARNING\] plugin/route53: Failed to keep example\.org\. in {kept}: Not a directory$")
    folder.unlink()
    folder.mkdir()
    server.wait_log(rf"^\[WARNING\] plugin/route53: example\.org\. is kept in {kept} again$")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_snapshot_outlives_the_cloud(cloud: Route53, serve: Serve, tmp_path: Path) -> None:
    options = f"aws_endpoint {cloud.url}\n aws_access_key A {SECRET}\n snapshot {tmp_path}\n refresh 1s"
    corefile = f"example.org:{{port}} {{\n route53 example.org:ZSECOND {{\n {options}\n }}\n}}"
    server = serve(corefile, env=ENVIRONMENT)
    assert "[WARNING] plugin/route53: Save aws_access_key in Corefile has been deprecated" in server.log()
    until(lambda: (tmp_path / "db.example.org@route53-ZSECOND").is_file(), "the file")
    server.signal(signal.SIGKILL)
    server.process.wait()
    cloud.away = DENIED
    start = len(server.log())
    server.start()
    server.wait_log(r"Serving example.org. with 1 SOA serial from .*/db.example.org@route53-ZSECOND until it is read", start=start)
    server.wait_log(r"Failed to update zones \[example.org.\]: ", start=start)
    assert server.answers("only.example.org") == ["192.0.2.5"]
    cloud.zones["ZSECOND"] = [*SECOND, ("late.example.org.", "A", 300, ["192.0.2.8"])]
    cloud.away = None
    server.until("late.example.org", "A", ["192.0.2.8"])
    assert SECRET not in server.log()


def test_what_is_not_there_is_refused(cloud: Route53, serve: Serve) -> None:
    server = serve(f"example.org:{{port}} {{\n route53 example.org:ZNONE {{\n aws_endpoint {cloud.url}\n }}\n}}", env=ENVIRONMENT, wait=False)
    assert server.exit_status() == 1
    place = r"plugin/route53: \S+Corefile:4 - Error during parsing: failed to initialize route53 plugin: errors updating zones: "
    server.wait_log(place + r"\[failed to list resource records for example.org.:ZNONE from route53: .*\(NoSuchHostedZone\)")


# ---- what a refresh takes ----


def of_threads(server: Server) -> dict[str, int]:
    """Ticks of CPU that each worker has used."""
    found = {}
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("worker"):
            found[name] = sum(int(word) for word in (task / "stat").read_text().rpartition(")")[2].split()[11:13])
    return found


def kilobytes(server: Server, field: str) -> int:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{server.pid}/status").read_text().splitlines())
    return int(lines[field].split()[0])


@pytest.mark.memory
def test_a_refresh_takes_no_worker_and_little_memory(serve: Serve) -> None:
    """Of a zone of 10,000 records: at most 1.3 times the memory at its peak, and nothing of those who answer."""
    with Route53(ZLARGE=LARGE) as cloud:
        server = serve(f"example.net:{{port}} {{\n route53 example.net:ZLARGE {{\n  aws_endpoint {cloud.url}\n  refresh 1s\n }}\n}}\n", env=ENVIRONMENT)
        assert server.answers("h9996.example.net") == ["10.0.39.12"]
        memory, workers, asked = kilobytes(server, "VmRSS"), of_threads(server), len(cloud.requests)
        assert workers
        assert asked >= len(LARGE) / cloud.page
        for refresh in range(1, 4):
            cloud.zones["ZLARGE"] = [*LARGE[:-1], ("h9996.example.net.", "A", 60, [f"192.0.2.{refresh}"])]
            server.until("h9996.example.net", "A", [f"192.0.2.{refresh}"])
        assert len(cloud.requests) >= 4 * len(LARGE) / cloud.page
        assert kilobytes(server, "VmHWM") <= 1.3 * memory
        # What they use is that of the questions here: a refresh takes 20 ticks.
        assert sum(of_threads(server).values()) - sum(workers.values()) <= 10


# ---- moto ----


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Route 53 of moto's."""
    with run_moto(tmp_path_factory.mktemp("moto")) as url:
        yield url


def test_moto(moto: str, serve: Serve) -> None:
    client = boto3.client("route53", "us-east-1", endpoint_url=moto, aws_access_key_id="x", aws_secret_access_key="x")
    number = client.create_hosted_zone(Name="example.org", CallerReference="1", HostedZoneConfig={"PrivateZone": True, "Comment": ""})["HostedZone"]["Id"]

    def upsert(name: str, kind: str, *values: str) -> None:
        record_set = {"Name": name, "Type": kind, "TTL": 300, "ResourceRecords": [{"Value": value} for value in values]}
        client.change_resource_record_sets(HostedZoneId=number, ChangeBatch={"Changes": [{"Action": "UPSERT", "ResourceRecordSet": record_set}]})

    upsert("example.org.", "SOA", "ns.example.org. host.example.org. 1 7200 900 1209600 86400")
    upsert("a.example.org.", "A", "192.0.2.1", "192.0.2.2")
    upsert("*.w.example.org.", "TXT", '"one" "two"')
    corefile = f"example.org:{{port}} {{\n route53 example.org:{number.removeprefix('/hostedzone/')} {{\n refresh 1s\n }}\n}}"
    server = serve(corefile, env=ENVIRONMENT | {"AWS_ENDPOINT_URL": moto})
    assert server.answers("a.example.org") == ["192.0.2.1", "192.0.2.2"]
    assert server.answers("x.w.example.org", "TXT") == ['"one" "two"']
    upsert("a.example.org.", "A", "192.0.2.3")
    server.until("a.example.org", "A", ["192.0.2.3"])
