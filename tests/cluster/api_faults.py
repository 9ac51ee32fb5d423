"""What clients see while the API server refuses the DNS pods, ends their watches or has forgotten where they were: a proxy does so, for them alone."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.cluster import api_proxy
from tests.cluster.control_plane import ADDRESS, ControlPlane
from tests.cluster.scene import SERVICE, Outcome, Scene
from tests.waiting import REPLY, until

__all__ = ["FAULTS", "LASTS", "ApiProxy", "proxied"]

PORT = 6444
#: Seconds that a fault lasts.
LASTS = 60.0


class ApiProxy:
    """On the host of the control plane. Its certificate is a copy of the API server's."""

    def __init__(self, control: ControlPlane) -> None:
        self.control, self.folder = control, control.host.folder / "api-proxy"
        self.folder.mkdir(exist_ok=True)
        self.log = control.host.folder / "api-proxy.log"

    def start(self) -> None:
        pki, folder = self.control.certificates.pki, self.folder
        (folder / "fault").write_text("none")
        self.take_certificate(pki)
        words = [str(PORT), f"{ADDRESS}:6443", f"{folder}/apiserver.crt", f"{folder}/apiserver.key", f"{pki}/ca.crt", f"{folder}/fault"]
        self.control.host.start("api-proxy", sys.executable, str(Path(api_proxy.__file__)), *words)
        until(lambda: self.log.read_text(), "the start of the proxy", REPLY)

    def take_certificate(self, pki: Path) -> None:
        """From a folder of keys; with the next fault."""
        for name in ("apiserver.crt", "apiserver.key"):
            (self.folder / name).write_bytes((pki / name).read_bytes())

    def set(self, fault: str) -> None:
        """A fault of api_proxy.FAULTS; all connections end."""
        (self.folder / "fault").write_text(fault)
        count = self.counted("fault")
        self.control.host.signal("api-proxy", signal.SIGHUP)
        until(lambda: self.counted("fault") > count, f"the proxy's fault {fault}", REPLY)

    def counted(self, what: str) -> int:
        """The lines of the log of a kind."""
        return sum(line.split(" ")[0] == what for line in self.log.read_text().splitlines())

    def stop(self) -> None:
        self.control.host.stop("api-proxy")


@contextlib.contextmanager
def proxied(scene: Scene) -> Iterator[ApiProxy]:
    """The DNS pods have the proxy as their API server, until the context ends."""
    proxy = ApiProxy(scene.control)
    proxy.start()
    try:
        scene.deployment.set_api_server(ADDRESS, PORT)
        try:
            yield proxy
        finally:
            scene.deployment.set_api_server()
    finally:
        proxy.stop()


def refused(fault: str) -> Callable[[Scene, ApiProxy], Outcome]:
    """Each request is refused with a status."""
    return lambda scene, proxy: _lasting(scene, proxy, fault, fault, "requests refused")


def watches_gone(scene: Scene, proxy: ApiProxy) -> Outcome:
    """No watch goes on from where it was: 410 Gone, and nothing else."""
    return _lasting(scene, proxy, "gone", "gone", "watches refused")


def watches_end(scene: Scene, proxy: ApiProxy) -> Outcome:
    """Watches end by their timeout, one after the other."""
    return _lasting(scene, proxy, "timeouts", "end", "requests answered")


def _lasting(scene: Scene, proxy: ApiProxy, fault: str, kind: str, what: str) -> Outcome:
    """A fault for LASTS seconds, at the begin of which a service is made."""

    def lasting() -> str:
        before = proxy.counted(kind)
        proxy.set(fault)
        began = time.monotonic()
        scene.control.apply(SERVICE)
        known = _known_within(scene, began + LASTS)
        time.sleep(max(0.0, began + LASTS - time.monotonic()))
        count = proxy.counted(kind) - before
        if not count:
            raise RuntimeError(f"the fault {fault} met no request")
        proxy.set("none")
        when = f"{known - began:.1f} s" if known else f"{scene.new_service_known():.1f} s from the end"
        return f"{count} {what}; a service made at its begin is known after {when}"

    return scene.during(lasting)


def _known_within(scene: Scene, end: float) -> float:
    """When the new service was known, 0 where it was not by then."""
    while time.monotonic() < end:
        if scene.knows_new_service():
            return time.monotonic()
        time.sleep(1.0)
    return 0.0


def forgotten(scene: Scene, proxy: ApiProxy) -> Outcome:
    """While the DNS pods do not reach the API server, a service is made, etcd forgets what was before, and the API server starts anew: it says 410 Gone."""

    def forgetting() -> str:
        proxy.set("away")
        scene.control.apply(SERVICE)
        scene.control.compact()
        before = proxy.counted("gone")
        proxy.set("none")
        seconds = scene.new_service_known()
        count = proxy.counted("gone") - before
        if not count:
            raise RuntimeError("no watch was refused with 410 Gone")
        return f"{count} watches refused; a service made meanwhile is known after {seconds:.1f} s"

    return scene.during(forgetting)


FAULTS: Mapping[str, Callable[[Scene, ApiProxy], Outcome]] = {
    f"429 from the API server for {LASTS:.0f} s": refused("429"),
    f"500 from the API server for {LASTS:.0f} s": refused("500"),
    f"503 from the API server for {LASTS:.0f} s": refused("503"),
    f"410 Gone for each watch for {LASTS:.0f} s": watches_gone,
    f"watches that end after {api_proxy.SECONDS} s, for {LASTS:.0f} s": watches_end,
    "etcd compacted, the API server started anew": forgotten,
}
