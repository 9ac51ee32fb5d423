"""The properties that say which API server to ask, and how hard: of *kubernetes*, *k8s_gateway*, and plugins that watch kinds of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted
from fastdns.plugins.kubernetes.watch.origin import Limits
from fastdns.setup import Controller
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.kubernetes.watch.connection import Api

__all__ = ["ApiServerOptions"]

log = Log("plugin/kubernetes")


class ApiServerOptions:
    """Without any of the properties: the API server of the cluster that the process is a pod of."""

    endpoint: str = ""
    #: Certificate, key and CA file.
    tls: tuple[str, str, str] = ("", "", "")
    kubeconfig: str = ""
    context: str = ""
    qps: float = 0.0
    burst: int = 0
    inflight: int = 0
    #: Seconds; 0 or less: do not wait.
    startup_timeout: float = 5.0

    def __init__(self, *, endpoint: str = "", kubeconfig: str = "", context: str = "") -> None:
        self.endpoint = endpoint
        self.kubeconfig = kubeconfig
        self.context = context

    def read(self, controller: Controller) -> bool:
        """Read the property at the cursor, if it is one of these. Raises CorefileError and ValueError with CoreDNS's texts."""
        read = PROPERTIES.get(controller.val())
        if read is not None:
            read(controller, self)
        return read is not None

    @property
    def limits(self) -> Limits:
        """How hard the API server may be asked."""
        return Limits(self.qps, self.burst, self.inflight)

    def api(self) -> Api:
        """The API server. Raises ApiConfigError."""
        if self.kubeconfig:
            from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig

            return Kubeconfig(self.kubeconfig, self.context)
        from fastdns.plugins.kubernetes.watch.connection import Endpoint, InCluster

        if self.endpoint:
            return Endpoint(self.endpoint, *self.tls)
        return InCluster()


def read_endpoint(controller: Controller, options: ApiServerOptions) -> None:
    urls = controller.args(1)
    options.endpoint = urls[0]
    if len(urls) > 1:
        log.warning(f"Multiple endpoints have been deprecated, only the first specified endpoint '{urls[0]}' is used")


def read_tls(controller: Controller, options: ApiServerOptions) -> None:
    cert, key, ca = controller.args(3, 3)
    for path in (cert, key, ca):
        controller.reads(path)
    options.tls = (cert, key, ca)


def read_kubeconfig(controller: Controller, options: ApiServerOptions) -> None:
    arguments = controller.args(1, 2)
    options.kubeconfig = arguments[0]
    controller.reads(arguments[0])
    options.context = arguments[1] if len(arguments) == 2 else ""


def read_qps(controller: Controller, options: ApiServerOptions) -> None:
    options.qps = number(controller, "apiserver_qps", lambda text: controller.decimal(text))


def read_burst(controller: Controller, options: ApiServerOptions) -> None:
    options.burst = int(number(controller, "apiserver_burst", controller.integer))


def read_inflight(controller: Controller, options: ApiServerOptions) -> None:
    options.inflight = int(number(controller, "apiserver_max_inflight", controller.integer))


def number(controller: Controller, name: str, read: Callable[[str], float]) -> float:
    """One argument, not negative."""
    text = controller.one_arg()
    try:
        value = read(text)
    except ValueError as error:
        raise controller.err(f"invalid {name} {quoted(text)}: {error}") from None
    if not value >= 0:
        raise controller.err(f"{name} must be >= 0")
    return value


def read_startup_timeout(controller: Controller, options: ApiServerOptions) -> None:
    text = controller.one_arg()
    try:
        options.startup_timeout = controller.seconds(text)
    except ValueError as error:
        raise CorefileError(f"failed to parse startup_timeout: {text}, {error}") from None


PROPERTIES: dict[str, Callable[[Controller, ApiServerOptions], None]] = {
    "endpoint": read_endpoint,
    "tls": read_tls,
    "kubeconfig": read_kubeconfig,
    "apiserver_qps": read_qps,
    "apiserver_burst": read_burst,
    "apiserver_max_inflight": read_inflight,
    "startup_timeout": read_startup_timeout,
}
