"""kubernetes: names of a cluster's services, endpoints and pods."""

from __future__ import annotations

import weakref
from functools import partial

from fastdns._wire import name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.address import packed
from fastdns.corefile.zone import is_reverse
from fastdns.plugins.file.source import notifier
from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.plugins.kubernetes.settings import Settings, parse
from fastdns.plugins.kubernetes.store.gauges import make_store
from fastdns.plugins.kubernetes.store.store import Store
from fastdns.plugins.kubernetes.watch import cluster
from fastdns.plugins.kubernetes.watch.informers import Options, Origin
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.watch.resources import Kind, Selectors
from fastdns.plugins.kubernetes.watch.selectors import Selector
from fastdns.plugins.kubernetes.zone.journal import ZoneJournal
from fastdns.plugins.kubernetes.zone.objects import EXTRA_LABELS, EXTRA_PLACES
from fastdns.plugins.secondary.keeper import receivers
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system import interfaces

__all__ = ["setup"]

TRAITS = Traits(runs_in_check=True)


def setup(controller: Controller) -> None:
    """``kubernetes [ZONES...] { ... }``, see README.md."""
    settings = parse(controller)
    wanted = kinds(settings)
    pod_labels = Kind.POD in wanted and ("labels" in settings.extras or any(key in controller.config.values for key in ("metadata", "client labels")))
    needs = options(settings, pod_labels=pod_labels)
    try:
        lease = cluster.acquire(origin(settings), needs, wanted, partial(make_store, places=needs.places), settings.namespaces)
    except ApiConfigError as error:
        raise CorefileError(str(error)) from None
    store = lease.sink
    assert isinstance(store, Store)  # noqa: S101 - that is what acquire was given
    handler = Kubernetes(
        controller.directive or "kubernetes",
        store,
        [*settings.zones, *[settings.objects] * bool(settings.objects)],
        settings.primary,
        multicluster=settings.multicluster,
        objects=settings.objects,
        extras=EXTRA_LABELS * needs.pod_labels | EXTRA_PLACES * needs.places,
        replica=bool(settings.replica),
        namespaces=settings.namespaces,
        fallthrough=settings.fallthrough,
        ttl=settings.ttl,
        kinds=sum(1 << kind for kind in wanted),
        pods=settings.pods,
        pod_names=settings.pod_names,
        no_endpoints=settings.no_endpoints,
        ignore_empty=settings.ignore_empty,
        zonal=settings.zonal,
        addresses=own_addresses(controller),
        near=settings.topology,
    )
    handler.problems = lease.cluster.problems
    journaled = [name_wire(zone).lower() for zone in settings.zones if settings.journal and not is_reverse(zone)]
    if settings.objects:
        journaled.append(name_wire(settings.objects).lower())
    # Also a configuration that never comes to serve gives its share back.
    weakref.finalize(handler, lease.release)
    controller.config.add_handler(handler)

    def start() -> None:
        if settings.replica:
            # Its threads have the niceness of the one that starts them.
            receivers.start()
        lease.start()
        if settings.startup_timeout > 0:
            lease.wait(settings.startup_timeout)
        notify = notifier(controller.config)
        for wire in journaled:
            journal = handler.journals[wire] = ZoneJournal(handler, wire, notify)
            journal.start()

    def stop_journals() -> None:
        for journal in handler.journals.values():
            journal.stop()

    controller.on_startup(start)
    controller.on_shutdown(stop_journals)
    controller.on_shutdown(lease.release)


def kinds(settings: Settings) -> list[Kind]:
    """What has to be listed and watched."""
    wanted = [Kind.NAMESPACE, Kind.SERVICE]
    if not settings.no_endpoints:
        wanted.append(Kind.SLICE)
    if settings.pods == "verified":
        wanted.append(Kind.POD)
    if settings.multicluster:
        wanted += [Kind.IMPORT, Kind.IMPORT_SLICE]
    return wanted


def origin(settings: Settings) -> Origin:
    """Where the objects come from. Raises ApiConfigError."""
    if settings.manifests:
        from fastdns.plugins.kubernetes.watch.manifests import Manifests

        manifests = Manifests(tuple(settings.manifests))
        manifests.check()
        return manifests
    if settings.replica:
        from fastdns.plugins.kubernetes.watch.replica import Replica

        return Replica(settings.replica)
    return settings.api()


def options(settings: Settings, *, pod_labels: bool) -> Options:
    """What tells this use of the API server apart from others. Labels of pods are kept where somebody may read them as metadata."""
    everything = Selector()
    selectors = Selectors(settings.labels or everything, settings.namespace_labels or everything)
    return Options(selectors, settings.limits, pod_labels, settings.snapshot, settings.topology != 0 or "topology" in settings.extras)


def own_addresses(controller: Controller) -> list[str]:
    """Addresses of this machine, for NS records: all but loopback ones; none where `bind` chooses, as in CoreDNS."""
    if controller.config.listen_hosts != [""]:
        return []
    try:
        found = interfaces.addresses()
    except OSError:
        return []
    texts = [text for texts in found.values() for text in texts]
    return [text for text in texts if not is_loopback(packed(text.partition("%")[0]) or b"")]


def is_loopback(address: bytes) -> bool:
    """Of an address in network order."""
    return address[:1] == b"\x7f" if len(address) == 4 else address == bytes(15) + b"\1"
