"""The ``k8s_gateway`` directive: its properties, read from a Corefile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fastdns.plugins.k8s_gateway.kinds import RESOURCES
from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.watch.selectors import Selector, SelectorError
from fastdns.setup import Controller
from fastdns.telemetry.log import Log

__all__ = ["Settings", "parse"]

TTL_MAX = 3600
DEFAULT = ("Ingress", "Service")

log = Log("plugin/k8s_gateway")


@dataclass
class Settings(ApiServerOptions):
    """All occurrences of the directive in a block."""

    zones: list[str] = field(default_factory=list)
    #: In the order of precedence; none: the default ones.
    resources: list[str] = field(default_factory=list)
    #: Those that are taken; none: all.
    ingress_classes: list[str] = field(default_factory=list)
    gateway_classes: list[str] = field(default_factory=list)
    selectors: list[Selector] = field(default_factory=list)
    ttl: int = 60
    apex: str = "dns1.kube-system"
    #: "": there is none.
    secondary: str = ""
    node_address: str = "InternalIP"
    fall: list[str] = field(default_factory=list)


def parse(controller: Controller) -> Settings:
    """Raises CorefileError and ValueError."""
    settings = Settings()
    while controller.next():
        settings.zones = controller.zones(controller.remaining_args())
        while controller.next_block():
            read = PROPERTIES.get(controller.val())
            if read is not None:
                read(controller, settings)
            elif not settings.read(controller):
                raise controller.err(f"Unknown property '{controller.val()}'")
    if not settings.resources:
        log.warning(f"No resources specified in config. Using defaults: [{' '.join(DEFAULT)}]")
        settings.resources = list(DEFAULT)
    return settings


def read_resources(controller: Controller, settings: Settings) -> None:
    names = controller.remaining_args()
    if not names:
        raise controller.err("Incorrectly formatted 'resource' parameter")
    for name in names:
        if name not in RESOURCES:
            raise controller.err(f"unknown resource '{name}': there are {', '.join(RESOURCES)}")
    settings.resources = list(dict.fromkeys(names))


def read_ingress_classes(controller: Controller, settings: Settings) -> None:
    settings.ingress_classes = classes(controller, "ingressClasses")


def read_gateway_classes(controller: Controller, settings: Settings) -> None:
    settings.gateway_classes = classes(controller, "gatewayClasses")


def classes(controller: Controller, name: str) -> list[str]:
    found = controller.remaining_args()
    if not found:
        raise controller.err(f"Incorrectly formatted '{name}' parameter")
    return found


def read_selectors(controller: Controller, settings: Settings) -> None:
    texts = controller.remaining_args()
    if not texts:
        raise controller.err("serviceLabelSelectors requires at least one argument (a label selector string)")
    for text in texts:
        if not text:
            raise controller.err("serviceLabelSelectors does not accept empty strings")
        try:
            settings.selectors.append(Selector.parse(text))
        except SelectorError as error:
            raise controller.err(f'invalid serviceLabelSelectors "{text}": {error}') from None


def read_ttl(controller: Controller, settings: Settings) -> None:
    ttl = controller.integer(controller.args(1)[0])
    if not 0 <= ttl <= TTL_MAX:
        raise controller.err(f"ttl must be in range [0, {TTL_MAX}]: {ttl}")
    settings.ttl = ttl


def read_apex(controller: Controller, settings: Settings) -> None:
    settings.apex = controller.args(1)[0]


def read_secondary(controller: Controller, settings: Settings) -> None:
    settings.secondary = controller.args(1)[0]


def read_node_address(controller: Controller, settings: Settings) -> None:
    found = controller.one_arg()
    if found not in ("InternalIP", "ExternalIP"):
        raise controller.err(f"nodeAddressType must be 'InternalIP' or 'ExternalIP', got: {found}")
    settings.node_address = found


def read_fallthrough(controller: Controller, settings: Settings) -> None:
    settings.fall = controller.fallthrough()


PROPERTIES: dict[str, Callable[[Controller, Settings], None]] = {
    "resources": read_resources,
    "ingressClasses": read_ingress_classes,
    "gatewayClasses": read_gateway_classes,
    "serviceLabelSelectors": read_selectors,
    "ttl": read_ttl,
    "apex": read_apex,
    "secondary": read_secondary,
    "nodeAddressType": read_node_address,
    "fallthrough": read_fallthrough,
}
