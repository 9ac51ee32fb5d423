"""The command line of workloads, the same for all commands that send queries."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastdns.bench.workload import Question, Workload, WorkloadError
from fastdns.bench.workloads import cluster, mix, queryfile, recorded, synthetic
from fastdns.bench.workloads.oracle import PODS, Oracle
from fastdns.bench.workloads.resolver import LIBCS, Resolver
from fastdns.bench.workloads.zonefile import Zone
from fastdns.plugins.kubernetes.watch import manifests

__all__ = ["add_workload_arguments", "cluster_from", "ingredients_from", "workload_from"]

A, AAAA = 1, 28
#: What a pod of a managed cluster finds behind the cluster's search domains.
NODE_DOMAINS = ("nodes.example.internal.", "example.internal.")


def add_workload_arguments(parser: argparse.ArgumentParser, services: int | None = None) -> None:
    """Add the options that :func:`workload_from` reads. `services` is the default size of a made-up cluster; None: only where it is asked for."""
    asked = parser.add_argument_group("workload", "what is asked; without --mix all of --queries and --capture, else A of the services of the cluster")
    kinds = "; ".join(f"{name}: {kind.what}" for name, kind in mix.KINDS.items())
    asked.add_argument("--mix", metavar="KIND=SHARE,...", help=f"shares of the questions, as in cluster=70,external=20,nx=10. {kinds}".replace("%", "%%"))
    asked.add_argument("--queries", action="append", default=[], metavar="FILE", help="a name and a type on each line, as dnsperf reads; - for standard input")
    asked.add_argument("--capture", action="append", default=[], metavar="FILE", help="queries to --capture-port in a pcap or pcapng file, or of a dnstap file")
    asked.add_argument("--capture-port", type=int, default=53, metavar="PORT", help="(default %(default)s)")
    asked.add_argument(
        "--questions", type=int, default=100_000, metavar="N", help="length of a mixed sequence, which is sent again and again (default %(default)s)"
    )
    asked.add_argument("--workload-seed", type=int, default=1, metavar="SEED", help="of all choices (default %(default)s)")
    asked.add_argument(
        "--zipf", type=float, default=1.0, metavar="S", help="name n is asked for 1/n^S as often as the first (default %(default)s; 0: all the same)"
    )
    asked.add_argument("--external", metavar="FILE", help="external names as in --queries, the most popular first (default: those of `fastdns-bench zone`)")
    asked.add_argument("--external-zone", default="example.org.", metavar="NAME", help="zone of the external names (default %(default)s)")
    asked.add_argument("--external-names", type=int, default=1000, metavar="N", help="number of them (default %(default)s)")
    asked.add_argument("--check-external", action="store_true", help="check external answers: that zone is served as `fastdns-bench zone` writes it")
    asked.add_argument("--absent-names", type=int, default=1000, metavar="N", help="different names of nx (default %(default)s)")
    asked.add_argument("--flood-zone", default="", metavar="NAME", help="where flood asks (default: default.svc of the cluster's zone, else example.org.)")

    made = parser.add_argument_group("cluster", "whose names are asked for, and from whose objects the right answers are worked out")
    made.add_argument("--manifests", action="append", default=[], metavar="PATH", help="files or folders: YAML, JSON, JSON lines as `kubectl get -o` writes")
    made.add_argument("--live", action="store_true", help="ask the API server that kubectl would ask")
    made.add_argument("--kubeconfig", metavar="FILE", help="ask the API server of this file")
    made.add_argument("--context", metavar="NAME", help="with this of its contexts")
    made.add_argument("--zone", default="cluster.local.", metavar="NAME", help="zone of the cluster (default %(default)s)")
    made.add_argument("--pods-mode", choices=PODS, default="disabled", help="property `pods` of the server under test (default %(default)s)")
    made.add_argument("--libc", choices=LIBCS, default="glibc", help="whose resolver the pods have (default %(default)s)")
    made.add_argument("--ndots", type=int, default=5, metavar="N", help="(default %(default)s)")
    made.add_argument("--search", action="append", metavar="NAME", help=f"search domain of the nodes, behind the cluster's (default: {' '.join(NODE_DOMAINS)})")
    scale = parser.add_argument_group("made-up cluster", "as `fastdns-bench cluster` writes it")
    synthetic.add_shape_arguments(scale, services)


def workload_from(arguments: argparse.Namespace) -> Workload:
    """What the options ask for. WorkloadError."""
    if arguments.questions < 1:
        raise WorkloadError(f"--questions {arguments.questions}: at least one")
    if arguments.mix is not None:
        shares = mix.parse_mix(arguments.mix)
        return mix.make(shares, ingredients_from(arguments), arguments.questions)
    files = [*arguments.queries, *arguments.capture]
    if files:
        found = ingredients_from(arguments)
        return mix.make({"queries": 1}, found, len(found.queries), ", ".join(Path(file).name for file in files))
    if cluster_given(arguments):
        return mix.make({"cluster": 1}, ingredients_from(arguments), arguments.questions)
    raise WorkloadError("nothing to ask: give --mix, --queries, --capture, --manifests, --live or --services")


def cluster_given(arguments: argparse.Namespace) -> bool:
    return bool(arguments.manifests or arguments.live or arguments.kubeconfig or arguments.context) or arguments.services is not None


def cluster_from(arguments: argparse.Namespace) -> cluster.Cluster | None:
    """The cluster that the options name. WorkloadError."""
    live = arguments.live or arguments.kubeconfig is not None or arguments.context is not None
    if live and arguments.manifests:
        raise WorkloadError("a cluster is either live or from --manifests")
    if live:
        return cluster.live(arguments.kubeconfig, arguments.context)
    if arguments.manifests:
        return cluster.manifests(arguments.manifests)
    if arguments.services is None:
        return None
    items = synthetic.objects(synthetic.shape_from(arguments))
    return cluster.Cluster(found for item in items for found in manifests.convert(item))


def ingredients_from(arguments: argparse.Namespace) -> mix.Ingredients:
    """What mixes are made of. WorkloadError."""
    found = cluster_from(arguments)
    external, known = external_from(arguments)
    oracle = None if found is None else Oracle(found, arguments.zone, arguments.pods_mode)
    domains = NODE_DOMAINS if arguments.search is None else arguments.search
    queries = [question for file in arguments.queries for question in queryfile.read_queries(file)]
    queries += [question for file in arguments.capture for question in recorded.read_recorded(file, arguments.capture_port)]
    if oracle is not None:
        queries = [oracle.question(question.name, question.type) for question in queries]
    return mix.Ingredients(
        seed=arguments.workload_seed,
        oracle=oracle,
        zipf=arguments.zipf,
        external=external,
        known=known,
        resolver=Resolver(arguments.zone.removesuffix(".") + ".", [name.removesuffix(".") + "." for name in domains], arguments.ndots, arguments.libc),
        absent=arguments.absent_names,
        flood=arguments.flood_zone,
        queries=queries,
        zone=arguments.zone.removesuffix(".") + ".",
    )


def external_from(arguments: argparse.Namespace) -> tuple[list[tuple[str, int]], dict[tuple[str, int], Question]]:
    """Names and types outside of the cluster, and what is known of their answers."""
    zone = Zone(arguments.external_zone, arguments.external_names)
    if arguments.external is not None:
        asked = [(question.name, question.type) for question in queryfile.read_queries(arguments.external)]
        if not asked:
            raise WorkloadError(f"{arguments.external}: no queries")
    else:
        asked = [(zone.name(number), A) for number in range(zone.names)]
    if not arguments.check_external:
        return asked, {}
    questions = (zone.question(number, qtype) for number in range(zone.names) for qtype in (A, AAAA))
    return asked, {(question.name, question.type): question for question in questions}
