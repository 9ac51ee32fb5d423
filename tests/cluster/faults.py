"""The faults, of which clients see what they see: all of them by name, and the absence of the API server."""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping

from tests.cluster import api_faults, node_faults, pod_faults
from tests.cluster.api_faults import ApiProxy
from tests.cluster.key_faults import authority_changed, token_key_changed
from tests.cluster.scene import RETURN, SERVICE, Outcome, Scene
from tests.waiting import until

__all__ = ["NAMES", "run"]

#: Seconds without an API server: nodes are taken for lost after a minute, and their pods would be evicted after five more.
AWAY = (60.0, 600.0)


def api_server_away(scene: Scene, seconds: float) -> Outcome:
    """The API server is away for so long, and until all is as before: without it the node is taken for lost, and its pods for not ready."""
    control, nodes = scene.control, scene.nodes

    def away() -> str:
        pods = scene.deployment.ready()
        control.host.stop("kube-apiserver")
        time.sleep(seconds)
        control.start_apiserver()
        back = time.monotonic()
        control.apply(SERVICE)
        until(lambda: all(node.reaches_api_server() for node in nodes), "the way of all nodes to the API server", RETURN)
        reached, known = time.monotonic() - back, scene.new_service_known()
        until(lambda: scene.deployment.ready() == pods, "the readiness of the DNS pods", RETURN)
        return f"kube-proxy of all nodes leads to it again after {reached:.1f} s, and then a new service is known after {known:.1f} s"

    return scene.during(away)


#: By their names on the page.
DIRECT: Mapping[str, Callable[[Scene], Outcome]] = {
    **{f"API server away for {seconds:.0f} s": functools.partial(api_server_away, seconds=seconds) for seconds in AWAY},
    **pod_faults.FAULTS,
    **node_faults.FAULTS,
    "another key for tokens": token_key_changed,
}
#: Those of an API server that only the DNS pods see. Of the last they recover last.
PROXIED: Mapping[str, Callable[[Scene, ApiProxy], Outcome]] = {**api_faults.FAULTS, "another authority for the API server": authority_changed}
NAMES = (*DIRECT, *PROXIED)


def run(scene: Scene, names: Collection[str]) -> Iterator[tuple[str, Outcome | Exception]]:
    """The faults of these names, one after the other: what came of each, or what did not happen in it."""
    for name, fault in DIRECT.items():
        if name in names:
            yield name, _tried(functools.partial(fault, scene))
    if any(name in names for name in PROXIED):
        with api_faults.proxied(scene) as proxy:
            for name, other in PROXIED.items():
                if name in names:
                    yield name, _tried(functools.partial(other, scene, proxy))
                    proxy.set("none")


def _tried(fault: Callable[[], Outcome]) -> Outcome | Exception:
    try:
        return fault()
    except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
        return error
