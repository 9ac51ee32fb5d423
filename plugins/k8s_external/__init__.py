"""k8s_external: names of services for clients outside of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastdns.corefile import CorefileError
from fastdns.plugins.k8s_external._k8s_external import ExternalHandler
from fastdns.plugins.kubernetes._kubernetes import Kubernetes
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

TTL_MAX = 3600


@dataclass
class Settings:
    """What the directive says; of several in a block the last one's zones count, and what each sets."""

    zones: list[str] = field(default_factory=list)
    apex: str = "dns"
    #: Seconds.
    ttl: int = 5
    headless: bool = False
    #: None: never.
    fallthrough: list[str] | None = None


def setup(controller: Controller) -> None:
    """Add the handler; the block's kubernetes, which may be set up later, is found at the start."""
    settings = parse(controller)
    handler = ExternalHandler(settings.zones, settings.apex, settings.ttl, headless=settings.headless, fallthrough=settings.fallthrough)
    controller.config.add_handler(handler)

    def connect() -> None:
        kubernetes = controller.config.handler("kubernetes")
        if not isinstance(kubernetes, Kubernetes):
            raise CorefileError("plugin/k8s_external: kubernetes plugin not loaded")
        handler.use(kubernetes)

    controller.on_startup(connect)


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError and ValueError with CoreDNS's texts."""
    settings = Settings()
    while controller.next():
        settings.zones = controller.zones(controller.remaining_args())
        while controller.next_block():
            match controller.val():
                case "ttl":
                    settings.ttl = controller.integer(controller.args(1)[0])
                    if not 0 <= settings.ttl <= TTL_MAX:
                        raise controller.err(f"ttl must be in range [0, {TTL_MAX}]: {settings.ttl}")
                case "apex":
                    settings.apex = controller.args(1)[0]
                case "headless":
                    settings.headless = True
                case "fallthrough":
                    settings.fallthrough = controller.fallthrough()
                case other:
                    raise controller.err(f"unknown property '{other}'")
    return settings
