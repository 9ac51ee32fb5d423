"""Steps that change something and check nothing."""

from __future__ import annotations

import time

from tests.conformance.cases import Step, as_list
from tests.conformance.errors import Problem
from tests.conformance.kube_api import KubeAPI
from tests.conformance.run import Run
from tests.etcd import Etcd

__all__ = [
    "append",
    "configure_upstream",
    "etcd_delete",
    "etcd_put",
    "forget",
    "kube_apply",
    "kube_delete",
    "kube_down",
    "kube_watch",
    "remove",
    "send_signal",
    "sleep",
    "write",
]


def forget(run: Run, number: int, step: Step) -> None:
    """Resets what ``count`` and ``seen`` look at, of some upstreams or (``true``) of all."""
    for name in run.upstreams if step["forget"] is True else as_list(step["forget"]):
        run.upstreams[str(name)].forget()


def configure_upstream(run: Run, number: int, step: Step) -> None:
    for name, changes in step["upstream"].items():
        run.upstreams[str(name)].configure(run.places.fill_all(changes))


def write(run: Run, number: int, step: Step) -> None:
    for name, text in step["write"].items():
        run.write(name, text)


def append(run: Run, number: int, step: Step) -> None:
    for name, text in step["append"].items():
        with (run.folder / name).open("a", encoding="utf-8") as file:
            file.write(run.places.fill(text))


def remove(run: Run, number: int, step: Step) -> None:
    for name in as_list(step["remove"]):
        (run.folder / name).unlink()


def sleep(run: Run, number: int, step: Step) -> None:
    time.sleep(step["sleep"])


def send_signal(run: Run, number: int, step: Step) -> None:
    run.server.send_signal(step["signal"])


# ---- Kubernetes ----


def kube(run: Run) -> KubeAPI:
    if run.kube is None:
        raise Problem("the case has no kube")
    return run.kube


def kube_apply(run: Run, number: int, step: Step) -> None:
    for item in step["kube_apply"]:
        kube(run).apply(item)


def kube_delete(run: Run, number: int, step: Step) -> None:
    for reference in as_list(step["kube_delete"]):
        kube(run).delete(reference)


def kube_down(run: Run, number: int, step: Step) -> None:
    kube(run).set_down(step["kube_down"])


def kube_watch(run: Run, number: int, step: Step) -> None:
    action = step["kube_watch"]
    if action == "cut":
        kube(run).cut()
    elif action == "mark":
        kube(run).mark()
    else:
        kube(run).gone("status" if action == "gone-status" else "event")


# ---- etcd ----


def etcd(run: Run) -> Etcd:
    if run.etcd is None:
        raise Problem("the case has no etcd")
    return run.etcd


def etcd_put(run: Run, number: int, step: Step) -> None:
    for key, value in step["etcd_put"].items():
        etcd(run).put(key, value)


def etcd_delete(run: Run, number: int, step: Step) -> None:
    for key in as_list(step["etcd_delete"]):
        etcd(run).delete(key)
