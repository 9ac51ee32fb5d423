"""The ``kubernetes`` directive: its properties, read from a Corefile."""

from __future__ import annotations

from collections.abc import Callable

from fastdns.corefile import CorefileError
from fastdns.corefile.zone import is_reverse
from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.watch.selectors import Selector, SelectorError
from fastdns.setup import Controller

__all__ = ["Settings", "parse"]

PODS = ("disabled", "insecure", "verified")
TTL_MAX = 3600

#: What `topology` may name, and its bits for the native handler.
TOPOLOGIES = {("node",): 1, ("zone",): 2, ("node", "zone"): 3}
ONLY = 4

#: What `objects` may name beside the zone.
EXTRAS = {"labels", "topology"}


class Settings(ApiServerOptions):
    """One occurrence of the directive."""

    namespace_labels: Selector | None = None
    labels: Selector | None = None
    pods: str = "disabled"
    pod_names: bool = False
    ttl: int = 5
    no_endpoints: bool = False
    #: None: never.
    fallthrough: list[str] | None = None
    ignore_empty: bool = False
    zonal: bool = False
    #: File that keeps the last known state, "" for none.
    snapshot: str = ""
    #: Versions of the zones are kept, for IXFR.
    journal: bool = False
    #: Bits of TOPOLOGIES and ONLY; 0: endpoints are the same for all clients.
    topology: int = 0
    #: Zone in which replicas find the objects, "" for none.
    objects: str = ""
    #: Which of EXTRAS pods and endpoints have there.
    extras: frozenset[str] = frozenset()
    #: Zone of *secondary* that the objects come from, "" for none.
    replica: str = ""

    def __init__(self, zones: list[str], primary: str) -> None:
        super().__init__()
        self.zones = zones
        #: The first zone that is no reverse zone: PTR records point into it.
        self.primary = primary
        self.namespaces: list[str] = []
        self.multicluster: list[str] = []
        #: Files and folders to serve in place of an API server.
        self.manifests: list[str] = []


def parse(controller: Controller) -> Settings:
    """The directive's one occurrence. Raises CorefileError and ValueError with CoreDNS's texts."""
    settings: Settings | None = None
    while controller.once():
        settings = parse_stanza(controller)
    assert settings is not None  # noqa: S101 - a set-up runs for directives that are there
    return settings


def parse_stanza(controller: Controller) -> Settings:
    zones = controller.zones(controller.remaining_args())
    primary = next((zone for zone in zones if not is_reverse(zone)), None)
    if primary is None:
        raise CorefileError("non-reverse zone name must be used")
    settings = Settings(zones, primary)
    while controller.next_block():
        if settings.read(controller):
            continue
        read = PROPERTIES.get(controller.val())
        if read is None:
            raise controller.err(f"unknown property '{controller.val()}'")
        read(controller, settings)
    check(controller, settings)
    return settings


def check(controller: Controller, settings: Settings) -> None:
    """What properties say about each other."""
    if settings.namespaces and settings.namespace_labels is not None:
        raise controller.err("namespaces and namespace_labels cannot both be set")
    for zone in settings.multicluster:
        if zone not in settings.zones:
            listed = " ".join(settings.zones)
            raise CorefileError(f"is not authoritative for the multicluster zone {zone} (authoritative zones: [{listed}])")
    if settings.zonal and settings.no_endpoints:
        raise controller.err("zonal requires the endpoint cache; remove noendpoints")
    if settings.topology and settings.no_endpoints:
        raise controller.err("topology requires the endpoint cache; remove noendpoints")
    if settings.topology and settings.pods != "verified":
        raise controller.err("topology requires pods verified, which finds the node of a client")
    if settings.manifests and (settings.endpoint or settings.kubeconfig):
        raise controller.err("manifests takes the place of endpoint and kubeconfig; remove them")
    if settings.manifests and settings.snapshot:
        raise controller.err("manifests needs no snapshot; remove it")
    if "labels" in settings.extras and settings.pods != "verified":
        raise controller.err("objects with labels requires pods verified")
    if settings.objects in settings.zones:
        raise controller.err(f"objects must be a zone of its own: {settings.objects}")
    if settings.replica:
        check_replica(controller, settings)


def check_replica(controller: Controller, settings: Settings) -> None:
    """What says where objects come from, or which, has been said by the server that the replica is of."""
    if settings.manifests or settings.endpoint or settings.kubeconfig:
        raise controller.err("replica takes the place of endpoint, kubeconfig and manifests; remove them")
    if settings.snapshot:
        raise controller.err("replica needs no snapshot: secondary has the property store; remove it")
    if settings.labels is not None or settings.namespace_labels is not None:
        raise controller.err("replica has the objects that were selected by the server it is of; remove labels and namespace_labels")


# ---- properties ----


def read_namespaces(controller: Controller, settings: Settings) -> None:
    settings.namespaces += controller.args(1)


def selector(controller: Controller, name: str) -> Selector:
    text = " ".join(controller.args(1))
    try:
        return Selector.parse(text)
    except SelectorError as error:
        raise CorefileError(f"unable to parse {name} selector value: '{text}': {error}") from None


def read_namespace_labels(controller: Controller, settings: Settings) -> None:
    settings.namespace_labels = selector(controller, "namespace_label")


def read_labels(controller: Controller, settings: Settings) -> None:
    settings.labels = selector(controller, "label")


def read_pods(controller: Controller, settings: Settings) -> None:
    mode = controller.one_arg()
    if mode not in PODS:
        raise CorefileError(f"wrong value for pods: {mode},  must be one of: disabled, verified, insecure")
    settings.pods = mode


def read_pod_names(controller: Controller, settings: Settings) -> None:
    controller.no_args()
    settings.pod_names = True


def read_ttl(controller: Controller, settings: Settings) -> None:
    settings.ttl = controller.integer(controller.args(1)[0])
    if not 0 <= settings.ttl <= TTL_MAX:
        raise controller.err(f"ttl must be in range [0, {TTL_MAX}]: {settings.ttl}")


def read_no_endpoints(controller: Controller, settings: Settings) -> None:
    controller.no_args()
    settings.no_endpoints = True


def read_fallthrough(controller: Controller, settings: Settings) -> None:
    settings.fallthrough = controller.fallthrough()


def read_ignore(controller: Controller, settings: Settings) -> None:
    arguments = controller.remaining_args()
    if arguments and arguments[0] != "empty_service":
        raise CorefileError(f"unable to parse ignore value: '{arguments[0]}'")
    settings.ignore_empty |= bool(arguments)


def read_multicluster(controller: Controller, settings: Settings) -> None:
    arguments = controller.remaining_args()
    settings.multicluster = controller.zones(arguments) if arguments else []


def read_zonal(controller: Controller, settings: Settings) -> None:
    controller.no_args()
    settings.zonal = True


def read_topology(controller: Controller, settings: Settings) -> None:
    arguments = controller.args(1)
    only = arguments[-1] == "only"
    bits = TOPOLOGIES.get(tuple(arguments[:-1] if only else arguments))
    if bits is None:
        raise controller.err(f"wrong value for topology: {' '.join(arguments)}, must be one of: zone, node, node zone, and may end in: only")
    settings.topology = bits | (ONLY if only else 0)


def read_manifests(controller: Controller, settings: Settings) -> None:
    settings.manifests += [controller.path(path) for path in controller.args(1)]


def read_journal(controller: Controller, settings: Settings) -> None:
    controller.no_args()
    settings.journal = True


def read_objects(controller: Controller, settings: Settings) -> None:
    zone, *extras = controller.args(1)
    settings.objects = one_zone(controller, "objects", zone)
    if not EXTRAS.issuperset(extras):
        raise controller.err(f"wrong value for objects: {' '.join(extras)}, must be of: {' '.join(sorted(EXTRAS))}")
    settings.extras = frozenset(extras)


def read_replica(controller: Controller, settings: Settings) -> None:
    settings.replica = one_zone(controller, "replica", controller.one_arg())


def one_zone(controller: Controller, name: str, text: str) -> str:
    (zone, *others) = controller.zones([text])
    if others or is_reverse(zone):
        raise controller.err(f"{name} must be one zone, and no reverse zone")
    return zone


def read_snapshot(controller: Controller, settings: Settings) -> None:
    settings.snapshot = controller.path(controller.one_arg(), reads=False)


PROPERTIES: dict[str, Callable[[Controller, Settings], None]] = {
    "namespaces": read_namespaces,
    "namespace_labels": read_namespace_labels,
    "labels": read_labels,
    "pods": read_pods,
    "endpoint_pod_names": read_pod_names,
    "ttl": read_ttl,
    "noendpoints": read_no_endpoints,
    "fallthrough": read_fallthrough,
    "ignore": read_ignore,
    "multicluster": read_multicluster,
    "zonal": read_zonal,
    "topology": read_topology,
    "manifests": read_manifests,
    "snapshot": read_snapshot,
    "journal": read_journal,
    "objects": read_objects,
    "replica": read_replica,
}
