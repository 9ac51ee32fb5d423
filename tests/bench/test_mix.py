"""Mixes and what they ask, and their command line."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import pytest

from fastdns.bench.workload import Question, Workload, WorkloadError
from fastdns.bench.workloads import add_workload_arguments, cluster, mix, synthetic, workload_from
from fastdns.bench.workloads.oracle import Oracle
from fastdns.bench.workloads.resolver import Resolver
from fastdns.plugins.kubernetes.watch.manifests import convert

SHAPE = synthetic.Shape(services=50, endpoints=100)
A, PTR, AAAA, SRV = 1, 12, 28, 33


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(cluster.Cluster(found for item in synthetic.objects(SHAPE) for found in convert(item)))


def made_by(*arguments: str) -> Workload:
    parser = argparse.ArgumentParser()
    add_workload_arguments(parser)
    return workload_from(parser.parse_args(arguments))


def sequence(made: Workload) -> list[Question]:
    return [made.questions[index] for index in made.order]


# ---- the line ----


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("cluster=70,external=20,nx=10", {"cluster": 70, "external": 20, "nx": 10}),
        (" cluster = 7.5% , nx = 1e1 ", {"cluster": 7.5, "nx": 10}),
        ("search-external", {"search-external": 1}),
        ("pair,reverse", {"pair": 1, "reverse": 1}),
    ],
)
def test_shares(text: str, shares: dict[str, float]) -> None:
    assert mix.parse_mix(text) == shares


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "a kind is missing"),
        ("cluster=1,", "a kind is missing"),
        ("=5", "a kind is missing in '=5'"),
        ("clutser=1", f"there is no 'clutser'; did you mean cluster? (kinds: {', '.join(mix.KINDS)})"),
        ("17=1", f"there is no '17' (kinds: {', '.join(mix.KINDS)})"),
        ("nx=1,nx=2", "nx is there twice"),
        ("nx=", "the share of nx is '', not a number"),
        ("nx=many", "the share of nx is 'many', not a number"),
        ("nx=0", "the share of nx must be more than 0, not 0"),
        ("nx=-1", "the share of nx must be more than 0, not -1"),
        ("nx=inf", "the share of nx must be more than 0, not inf"),
        ("nx=nan", "the share of nx must be more than 0, not nan"),
        ("cluster=70,nx", "either all kinds have shares or none"),
    ],
)
def test_bad_shares(text: str, complaint: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        mix.parse_mix(text)
    assert str(raised.value) == f"--mix {text!r}: {complaint}"


# ---- what is asked ----


def test_shares_are_those_of_questions() -> None:
    made = made_by("--mix", "cluster=50,search=30,nx=20", "--services", "50", "--questions", "10000")
    counts = Counter("nx" if question.name.startswith("no-") else "found" if question.rcode == 0 else "miss" for question in sequence(made))
    assert counts["nx"] == 2000
    assert counts["miss"] == pytest.approx(2500, abs=12)  # five of six; A and AAAA
    assert counts["found"] == pytest.approx(5500, abs=12)
    assert len(made.order) == pytest.approx(10000, abs=12)
    assert made.bursts is not None
    assert Counter(made.bursts).keys() == {1, 2}


def test_seeds() -> None:
    command = ("--mix", "cluster,flood,nx,external", "--services", "30", "--questions", "400")
    first, again, other = made_by(*command), made_by(*command), made_by(*command, "--workload-seed", "2")
    assert first == again
    assert first.order != other.order
    # What else is in the mix does not change what a kind asks.
    flooded = [question for question in sequence(first) if len(question.name.split(".")[0]) > 7 and ".default.svc." in question.name]
    alone = made_by("--mix", "flood", "--services", "30", "--questions", "100")
    assert [question for question in sequence(alone) if question in set(flooded)] == sequence(alone)


def test_zipf() -> None:
    counts = [count for _, count in Counter(made_by("--mix", "cluster", "--services", "50", "--questions", "20000").order).most_common()]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.3)
    even = [count for _, count in Counter(made_by("--mix", "cluster", "--services", "50", "--questions", "20000", "--zipf", "0").order).most_common()]
    assert even[0] < 1.5 * even[-1]


def test_a_flood_asks_for_each_name_once() -> None:
    made = made_by("--mix", "flood", "--questions", "5000", "--flood-zone", "victim.test")
    assert len(made.questions) == 5000
    assert all(question.name.endswith(".victim.test.") and question.rcode is None for question in made.questions)


def test_queries_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "queries").write_text("".join(f"name-{number}.test A\n" for number in range(7)))
    alone = made_by("--queries", str(tmp_path / "queries"))
    assert [question.name for question in sequence(alone)] == [f"name-{number}.test." for number in range(7)]
    assert alone.label == "queries"
    mixed = made_by("--queries", str(tmp_path / "queries"), "--mix", "queries=20,flood=80", "--questions", "100")
    assert [question.name for question in sequence(mixed) if question.name.startswith("name-")] == [f"name-{number % 7}.test." for number in range(20)]


def test_queries_are_checked_where_a_cluster_is_known(tmp_path: Path) -> None:
    (tmp_path / "queries").write_text("kubernetes.default.svc.cluster.local A\nno.default.svc.cluster.local A\nexample.org A\n")
    made = made_by("--queries", str(tmp_path / "queries"), "--services", "10")
    assert [(question.rcode, question.answers) for question in made.questions] == [(0, {bytes((10, 96, 0, 1))}), (3, frozenset()), (None, None)]


KINDS_ASK = {
    "cluster": {A},
    "pair": {A, AAAA},
    "short": {A, AAAA},
    "search": {A, AAAA},
    "search-external": {A, AAAA},
    "headless": {A},
    "endpoint": {A, AAAA},
    "srv": {SRV},
    "pod": {A},
    "reverse": {PTR},
    "cname": {A},
    "nx": {A},
    "external": {A},
    "flood": {A},
}


@pytest.mark.parametrize("kind", KINDS_ASK)
def test_types_of_kinds(oracle: Oracle, kind: str) -> None:
    made = mix.make({kind: 1}, mix.Ingredients(oracle=oracle), 200)
    assert {question.type for question in made.questions} <= KINDS_ASK[kind]
    assert (made.bursts is not None) == (AAAA in KINDS_ASK[kind] and kind != "endpoint")
    assert 200 <= len(made.order) < 212


# ---- resolvers ----

FULL = "web.shop.svc.cluster.local"
MISSES = [f"{FULL}.{suffix}" for suffix in ("team.svc.cluster.local.", "svc.cluster.local.", "cluster.local.", "one.test.", "two.test.")]


@pytest.mark.parametrize(
    ("name", "options", "there", "asked"),
    [
        (FULL, {}, {f"{FULL}.": True}, [*MISSES, f"{FULL}."]),  # five misses and a hit
        (FULL, {"ndots": 4}, {f"{FULL}.": True}, [f"{FULL}."]),
        (FULL, {"ndots": 4}, {}, [f"{FULL}.", *MISSES]),
        (FULL, {"ndots": 4, "libc": "musl"}, {}, [f"{FULL}."]),
        (f"{FULL}.", {}, {}, [f"{FULL}."]),
        ("web", {}, {"web.team.svc.cluster.local.": True}, ["web.team.svc.cluster.local."]),
        ("web.shop", {}, {f"{FULL}.": True}, ["web.shop.team.svc.cluster.local.", f"{FULL}."]),
        ("w", {"ndots": 1}, {}, ["w.team.svc.cluster.local.", "w.svc.cluster.local.", "w.cluster.local.", "w.one.test.", "w.two.test.", "w."]),
        ("w", {"libc": "musl"}, {"w.svc.cluster.local.": False}, ["w.team.svc.cluster.local.", "w.svc.cluster.local."]),
        ("w", {}, {"w.svc.cluster.local.": False, "w.cluster.local.": True}, ["w.team.svc.cluster.local.", "w.svc.cluster.local.", "w.cluster.local."]),
    ],
)
def test_search_lists(name: str, options: dict[str, object], there: dict[str, bool], asked: list[str]) -> None:
    resolver = Resolver(domains=("one.test.", "two.test."), **options)  # type: ignore[arg-type]
    assert list(resolver.asked(name, "team", there.get)) == asked


# ---- complaints ----


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "nothing to ask: give --mix, --queries, --capture, --manifests, --live or --services"),
        (["--mix", "cluster"], "cluster asks for names of a cluster, and none is given"),
        (["--mix", "search"], "search asks for names of a cluster, and none is given"),
        (["--mix", "queries"], "queries asks what --queries or --capture gives, and neither is there"),
        (["--mix", "headless", "--services", "5", "--headless", "0"], "headless: the cluster has no headless services with endpoints"),
        (["--mix", "nx", "--questions", "0"], "--questions 0: at least one"),
        (["--manifests", "/nowhere"], "manifests: /nowhere: no such file or folder"),
        (["--manifests", "/nowhere", "--live"], "a cluster is either live or from --manifests"),
        (["--services", "-1"], "a cluster cannot have -1 services"),
        (["--services", "1", "--namespaces", "0"], "a cluster cannot have 0 namespaces"),
        (["--services", "1", "--pods", "9000000"], "a cluster cannot have 9000000 pods"),
        (["--services", "1", "--dual-stack", "2"], "the share of dual-stack services is from 0 to 1, not 2"),
        (["--services", "0", "--endpoints", "1"], "endpoints need a service"),
        (["--mix", "external", "--external-names", "0"], "a zone cannot have 0 names"),
        (["--mix", "external", "--external", "/dev/null"], "/dev/null: no queries"),
        (["--mix", "external", "--external-zone", "a..b"], "a..b: "),
    ],
)
def test_complaints(arguments: list[str], complaint: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        made_by(*arguments)
    assert str(raised.value).startswith(complaint)


def test_bad_manifests_say_where(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Service\nmetadata: [\n")
    with pytest.raises(WorkloadError, match=r"/bad\.yaml:3:1: "):
        made_by("--manifests", str(tmp_path))
