"""Objects from files: every form that kubectl writes, changes that are followed, files that will not do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastdns.plugins.kubernetes.watch import manifests
from fastdns.plugins.kubernetes.watch.address import ApiConfigError
from fastdns.plugins.kubernetes.watch.manifests import ManifestError, Manifests, read
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors
from fastdns.plugins.kubernetes.watch.selectors import Selector
from tests.apiserver.populate import write_file
from tests.apiserver.synthetic import SIZES, SyntheticCluster
from tests.plugins.kubernetes.conftest import addresses, service
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "LOOK", 0.02)


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "creationTimestamp": "2026-01-02T03:04:05Z"}}
WEB = service("web", "10.0.0.1", namespace="shop")
API = service("api", "10.0.0.2", namespace="shop")
BOTH = {"web": "10.0.0.1", "api": "10.0.0.2"}
LIST = {"apiVersion": "v1", "kind": "List", "items": [NAMESPACE, WEB, API], "metadata": {"resourceVersion": ""}}
TYPED = {"kind": "ServiceList", "metadata": {}, "items": [{**WEB, "kind": None}, {key: API[key] for key in ("metadata", "spec")}]}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}}

#: File name -> what is written.
FORMS: dict[str, str] = {
    "documents.yaml": yaml.safe_dump_all([NAMESPACE, WEB, None, DEPLOYMENT, API]),
    "list.yaml": yaml.safe_dump(LIST),
    "lists.yml": yaml.safe_dump_all([LIST, TYPED]),
    "bare-times.yaml": yaml.safe_dump_all([WEB, API]) + "---\nkind: Namespace\nmetadata: {name: shop, creationTimestamp: 2026-01-02T03:04:05Z}\n",
    "list.json": json.dumps(LIST, indent=4),
    "typed.json": json.dumps({"items": TYPED["items"], "kind": "ServiceList"}).replace('{"items"', '{"kind": "ServiceList", "items"'),
    "values.json": json.dumps(WEB, indent=2) + "\n" + json.dumps(API),
    "lines.jsonl": "\n".join(map(json.dumps, (NAMESPACE, WEB, DEPLOYMENT, API))),
    "lines-of-lists.jsonl": json.dumps(LIST) + "\n" + json.dumps(TYPED),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, tmp_path: Path, follow: Any) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    recorder, _ = follow(Manifests((str(path),)), Kind.NAMESPACE, Kind.SERVICE)
    assert addresses(recorder) == BOTH
    assert ("", "shop") in recorder.objects(Kind.NAMESPACE)
    assert recorder.log[0] == ("begin", "namespace", 1)


def test_one_object_in_a_json_file(tmp_path: Path, follow: Any) -> None:
    (tmp_path / "one.json").write_text(json.dumps(WEB, indent=2))
    recorder, _ = follow(Manifests((str(tmp_path),)))
    assert addresses(recorder) == {"web": "10.0.0.1"}


def test_folders_are_read_by_known_endings(tmp_path: Path, follow: Any) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(WEB))
    (tmp_path / "b.json").write_text(json.dumps(API))
    (tmp_path / "README.md").write_text("{")
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "empty.json").write_text("")
    recorder, _ = follow(Manifests((str(tmp_path),)))
    assert addresses(recorder) == BOTH


def replace(path: Path, text: str) -> None:
    new = path.with_name("." + path.name)
    new.write_text(text)
    os.replace(new, path)


def test_changes_are_followed_and_only_they(tmp_path: Path, follow: Any) -> None:
    one, other = tmp_path / "one.yaml", tmp_path / "other.yaml"
    one.write_text(yaml.safe_dump(WEB))
    other.write_text(yaml.safe_dump(API))
    recorder, _ = follow(Manifests((str(tmp_path),)))
    replace(other, yaml.safe_dump(service("api", "10.0.0.9", namespace="shop")))
    until(lambda: addresses(recorder) == {"web": "10.0.0.1", "api": "10.0.0.9"})
    other.unlink()
    until(lambda: addresses(recorder) == {"web": "10.0.0.1"})
    other.write_text(yaml.safe_dump(API))
    until(lambda: addresses(recorder) == BOTH)
    assert recorder.log.count(("upsert", "service", "shop", "web")) == 1


def test_a_configmap_volume_is_followed(tmp_path: Path, follow: Any) -> None:
    """The kubelet swaps a symbolic link to a folder."""
    for turn, ip in enumerate(("10.0.0.1", "10.0.0.7")):
        (tmp_path / f"data{turn}").mkdir()
        (tmp_path / f"data{turn}" / "x.yaml").write_text(yaml.safe_dump(service("web", ip)))
    mount = tmp_path / "mount"
    mount.mkdir()
    (mount / "..data").symlink_to(tmp_path / "data0")
    (mount / "x.yaml").symlink_to("..data/x.yaml")
    recorder, _ = follow(Manifests((str(mount),)))
    (mount / "..new").symlink_to(tmp_path / "data1")
    os.replace(mount / "..new", mount / "..data")
    until(lambda: addresses(recorder) == {"web": "10.0.0.7"})


BAD: dict[str, tuple[str, str, str]] = {
    "yaml": ("b.yaml", "kind: Service\nmetadata:\n  name: [x\n", "b.yaml:4:1: "),
    "a wrong type in yaml": ("b.yaml", "kind: Pod\nmetadata: {name: p}\n---\nkind: Service\nmetadata: {name: 5}\n", "b.yaml:4: Expected `str"),
    "a wrong type in json": ("b.json", '{"kind":"Service",\n"metadata":5}', "b.json:1: Expected `object`, got `int` - at `$.metadata`"),
    "a line of json": ("b.jsonl", '{"kind":"Pod","metadata":{"name":"p"}}\n{"kind":"Service","metadata":{"name":7}}', "b.jsonl:2: Expected `str"),
    "an item of a list": ("b.json", '{"kind":"List","items":[\n{"kind":"Service",\n"metadata":{"name":1}}]}', "b.json:2: Expected `str"),
    "cut short": ("b.jsonl", '{"kind":"Pod"', "b.jsonl: the file ends in the middle of a value"),
    "not json": ("b.jsonl", "kind: Pod", "b.jsonl:1: malformed JSON"),
    "without a name": ("b.yaml", "kind: Service\nmetadata: {}\n", "b.yaml: a service without a name"),
}


@pytest.mark.parametrize(("name", "text", "said"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_said_and_leaves_what_it_held(name: str, text: str, said: str, tmp_path: Path, follow: Any, lines: list[str]) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(WEB))
    path = tmp_path / name
    path.write_text(json.dumps(API))
    recorder, _ = follow(Manifests((str(tmp_path),)))
    assert addresses(recorder) == BOTH
    replace(path, text)
    until(lambda: lines)
    assert lines[0].startswith(f"[ERROR] plugin/kubernetes: manifests: {tmp_path}/{said}")
    replace(tmp_path / "a.yaml", yaml.safe_dump(service("web", "10.0.0.5", namespace="shop")))
    until(lambda: addresses(recorder)["web"] == "10.0.0.5")
    assert addresses(recorder)["api"] == "10.0.0.2"
    assert len(lines) == 1
    replace(path, json.dumps(service("new", "10.0.0.3")))
    until(lambda: addresses(recorder) == {"web": "10.0.0.5", "new": "10.0.0.3"})


def test_a_port_out_of_range_costs_itself(tmp_path: Path, follow: Any, lines: list[str]) -> None:
    wrong = service("web", "10.0.0.2", namespace="shop")
    wrong["spec"]["ports"] = [{"port": 70000}]
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(WEB))
    recorder, _ = follow(Manifests((str(tmp_path),)))
    assert addresses(recorder) == {"web": "10.0.0.1"}
    replace(tmp_path / "a.yaml", yaml.safe_dump_all([wrong, service("new", "10.0.0.3")]))
    until(lambda: addresses(recorder) == {"web": "10.0.0.2", "new": "10.0.0.3"})
    assert lines[0].startswith("[WARNING] plugin/kubernetes: service shop/web: skips 1 ports (")


def test_a_bad_file_at_the_start_leaves_the_good_ones(tmp_path: Path, follow: Any, lines: list[str]) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(WEB))
    (tmp_path / "b.yaml").write_text("{")
    recorder, lease = follow(Manifests((str(tmp_path),)))
    assert addresses(recorder) == {"web": "10.0.0.1"}
    assert lease.synced
    assert len(lines) == 1


def test_a_missing_path_is_an_error_at_set_up(tmp_path: Path) -> None:
    with pytest.raises(ApiConfigError, match=r"manifests: .*/nothing: no such file or folder"):
        Manifests((str(tmp_path / "nothing"),)).check()


def test_namespaces_are_implied_where_no_file_has_any(tmp_path: Path, follow: Any) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([WEB, {**API, "metadata": {"name": "api"}}]))
    recorder, _ = follow(Manifests((str(path),)), Kind.NAMESPACE, Kind.SERVICE)
    assert set(recorder.objects(Kind.NAMESPACE)) == {("", "shop"), ("", "default")}
    assert ("default", "api") in recorder.objects(Kind.SERVICE)
    replace(path, yaml.safe_dump_all([NAMESPACE, WEB, {**API, "metadata": {"name": "api"}}]))
    until(lambda: set(recorder.objects(Kind.NAMESPACE)) == {("", "shop")})


def labelled(kind: str, name: str, **labels: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": "shop", "labels": {key.replace("__", "/"): value for key, value in labels.items()}}}


def test_selectors_and_finished_pods(tmp_path: Path, follow: Any) -> None:
    imported = {"multicluster.kubernetes.io/service-name": "x", "tier": "front"}
    things = [
        labelled("Service", "in", tier="front"),
        labelled("Service", "out", tier="back"),
        labelled("Service", "none"),
        {**labelled("Pod", "runs", tier="front"), "status": {"phase": "Running"}},
        {**labelled("Pod", "done", tier="front"), "status": {"phase": "Succeeded"}},
        labelled("EndpointSlice", "plain", tier="front"),
        {"kind": "EndpointSlice", "metadata": {"name": "multi", "namespace": "shop", "labels": imported}},
        {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"env": "prod"}}},
        {"kind": "Namespace", "metadata": {"name": "test", "labels": {"env": "test"}}},
        {"kind": "ServiceImport", "metadata": {"name": "i", "namespace": "shop", "labels": {"env": "prod"}}},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, things)))
    selectors = Selectors(Selector.parse("tier=front"), Selector.parse("env=prod"))
    recorder, _ = follow(Manifests((str(path),)), *Kind, selectors=selectors)
    names = {kind.name: [name for _, name in recorder.objects(kind)] for kind in Kind}
    assert names == {
        "NAMESPACE": ["shop"],
        "SERVICE": ["in"],
        "SLICE": ["plain", "multi"],
        "POD": ["runs"],
        "IMPORT": ["i"],
        "IMPORT_SLICE": ["multi"],
    }


def test_yaml_and_json_of_a_synthetic_cluster_are_the_same(tmp_path: Path, follow: Any) -> None:
    views = []
    for name in ("cluster.yaml", "cluster.jsonl"):
        write_file(SyntheticCluster(SIZES["small"]).objects(), str(tmp_path / name))
        recorder, _ = follow(Manifests((str(tmp_path / name),)), Kind.NAMESPACE, Kind.SERVICE, Kind.SLICE, Kind.POD)
        views.append([recorder.objects(kind) for kind in Kind])
    assert views[0] == views[1]
    assert [len(view) for view in views[0]] == [5, 40, len(views[0][2]), 200, 0, 0]


def test_read_gives_models_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, (WEB, API))))
    assert [(kind, model.metadata.name) for kind, model in read(path)] == [(Kind.SERVICE, "web"), (Kind.SERVICE, "api")]
    path.write_text("[1]")
    with pytest.raises(ManifestError):
        list(read(path))


def test_deep_yaml_ends_in_an_error(tmp_path: Path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 5000)
    with pytest.raises(ManifestError):
        list(read(path))
