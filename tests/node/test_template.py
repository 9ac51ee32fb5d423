"""Templates become Corefiles, and what is no configuration changes none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fastdns.node.template import KubeDNS, TemplateError, read_kube_dns, render, template_of

LOCAL = ["169.254.20.10", "10.96.0.10"]
TCP = "    forward . __PILLAR__UPSTREAM__SERVERS__ {\n            force_tcp\n    }\n"
STUB = "\nacme.local:53 {\n    errors\n    cache 30\n    bind 169.254.20.10 10.96.0.10\n    forward . 192.0.2.1 192.0.2.2:5353\n}\n"


@pytest.mark.parametrize(
    ("template", "kube_dns", "wanted"),
    [
        ("bind __PILLAR__LOCAL__DNS__ __PILLAR__DNS__SERVER__\n", KubeDNS(), "bind 169.254.20.10 10.96.0.10 \n"),
        ("forward . __PILLAR__CLUSTER__DNS__\n", KubeDNS(), "forward . 10.96.7.7\n"),
        ("forward . __PILLAR__UPSTREAM__SERVERS__\n", KubeDNS(), "forward . /etc/resolv.conf\n"),
        ("forward . __PILLAR__UPSTREAM__SERVERS__\n", KubeDNS({}, ["192.0.2.1", "192.0.2.2"]), "forward . 192.0.2.1 192.0.2.2\n"),
        (TCP, KubeDNS(), "    forward . /etc/resolv.conf {\n            force_tcp\n    }\n"),
        (TCP, KubeDNS({}, ["192.0.2.1"]), "    forward . 192.0.2.1\n"),
        # Only a block that holds nothing else.
        (
            TCP.replace("force_tcp", "force_tcp\n    max_fails 1"),
            KubeDNS({}, ["192.0.2.1"]),
            TCP.replace("__PILLAR__UPSTREAM__SERVERS__", "192.0.2.1").replace("force_tcp", "force_tcp\n    max_fails 1"),
        ),
        ("errors\n", KubeDNS({"acme.local": ["192.0.2.1", "192.0.2.2:5353"]}, []), "errors\n" + STUB),
        ("__PILLAR__DNS__DOMAIN__\n", KubeDNS(), "__PILLAR__DNS__DOMAIN__\n"),
    ],
)
def test_render(template: str, kube_dns: KubeDNS, wanted: str) -> None:
    assert render(template, LOCAL, "53", "10.96.7.7", kube_dns) == wanted


def test_render_needs_the_upstream_service() -> None:
    assert render("errors\n", LOCAL, "53", None, KubeDNS()) == "errors\n"
    with pytest.raises(TemplateError, match="no address"):
        render("forward . __PILLAR__CLUSTER__DNS__", LOCAL, "53", None, KubeDNS())


def config_map(folder: Path, **keys: object) -> Path:
    for key, value in keys.items():
        (folder / key).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, KubeDNS()),
        ({"stubDomains": {"acme.local": ["1.2.3.4"]}}, KubeDNS({"acme.local": ["1.2.3.4"]}, [])),
        ({"upstreamNameservers": ["8.8.8.8", "[2001:db8::1]:53", "tls://9.9.9.9"]}, KubeDNS({}, ["8.8.8.8", "[2001:db8::1]:53", "tls://9.9.9.9"])),
        ({"federations": {"a": "b"}, "upstreamNameservers": ["2001:db8::1"]}, KubeDNS({}, ["2001:db8::1"])),
    ],
)
def test_kube_dns(tmp_path: Path, keys: dict[str, object], wanted: KubeDNS) -> None:
    assert read_kube_dns(config_map(tmp_path, **keys)) == wanted


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"stubDomains": "{"}, "stubDomains: "),
        ({"stubDomains": ["a"]}, "an object of lists"),
        ({"stubDomains": {"acme.local": "1.2.3.4"}}, "an object of lists"),
        ({"stubDomains": {"Acme local": ["1.2.3.4"]}}, "invalid domain name"),
        ({"stubDomains": {"acme.local": ["1.2.3.4\n}\n.:53 {\n  whoami"]}}, "invalid nameserver"),
        ({"stubDomains": {"acme.local": ["1.2.3.4:port"]}}, "invalid nameserver"),
        ({"stubDomains": {"acme.local": ["https://1.2.3.4/x"]}}, "invalid nameserver"),
        ({"upstreamNameservers": {"a": 1}}, "a list of servers"),
        ({"upstreamNameservers": [1]}, "a list of servers"),
        ({"upstreamNameservers": ["1.1.1.1"] * 4}, "more than three"),
        ({"upstreamNameservers": ["1.1.1.1 {"]}, "invalid nameserver"),
        ({"upstreamNameservers": [""]}, "invalid nameserver"),
    ],
)
def test_kube_dns_refused(tmp_path: Path, keys: dict[str, object], said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        read_kube_dns(config_map(tmp_path, **keys))


@pytest.mark.parametrize(("mode", "name"), [(None, "Corefile.base"), ("cache\n", "Corefile.base"), ("replica", "Corefile.replica")])
def test_the_template_of_a_mode(tmp_path: Path, mode: str | None, name: str) -> None:
    if mode is not None:
        (tmp_path / "kubernetes-mode").write_text(mode)
    assert template_of(tmp_path / "Corefile.base") == tmp_path / name


def test_a_mode_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "kubernetes-mode").write_text("both")
    with pytest.raises(TemplateError, match='kubernetes-mode: "both" is neither cache nor replica'):
        template_of(tmp_path / "Corefile.base")
