"""ready: the readiness page."""

from __future__ import annotations

from collections.abc import Callable

from fastdns.corefile import CorefileError
from fastdns.httpd.endpoint import Endpoint, page_address
from fastdns.httpd.message import Reply, Request
from fastdns.setup import Config, Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log

__all__ = ["Readiness", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/ready")

ADDRESS = ":8181"
#: Seconds for which the first question of all waits for an answer, while the server starts. kubelet's waits 1 s, and it asks again after 10 s.
PATIENCE = 0.5


def setup(controller: Controller) -> None:
    """``ready [ADDRESS] { monitor until-ready|continuously }``"""
    address, continuously = parse(controller)
    readiness: Readiness = controller.values.setdefault("ready", Readiness())
    if continuously is not None:
        readiness.continuously = continuously
    readiness.watch(controller)
    first = controller.process is not None and controller.process.first_start
    Endpoint(address, "/ready", readiness.page).follow(controller, PATIENCE if first else 0.0)


def parse(controller: Controller) -> tuple[str, bool | None]:
    """Address, and whether plugins are asked for ever (None: the Corefile says nothing)."""
    address, continuously = ADDRESS, None
    while controller.once():
        address = page_address(controller, address)
        while controller.next_block():
            if controller.val() != "monitor":
                raise controller.err(f"unknown property '{controller.val()}'")
            kind = controller.one_arg()
            if kind not in ("until-ready", "continuously"):
                raise CorefileError(f"monitor type '{kind}' not supported")
            continuously = kind == "continuously"
    return address, continuously


class Readiness:
    """Which plugins of one configuration are ready; several blocks share it."""

    def __init__(self) -> None:
        #: The later block's plugin stands for all of its name.
        self.checks: dict[str, Callable[[], bool]] = {}
        #: What a plugin has to say beside its being ready, "" for nothing.
        self.notes: list[tuple[str, Callable[[], str]]] = []
        self.continuously = False
        self.stopping = False
        self._was_ready: set[str] = set()
        self._restarting = False

    def watch(self, controller: Controller) -> None:
        """Look for plugins to ask once the block is complete, and for the end."""
        controller.on_startup(lambda: self.add(controller.config))
        controller.on_restart(lambda: self.restarting(True))
        controller.on_restart_failed(lambda: self.restarting(False))
        controller.on_shutdown(self.shutdown)

    def add(self, config: Config) -> None:
        """Every handler that can say whether it is ready; and notes of those that have a method ``note``."""
        self.checks.update(config.ready_checks())
        for handler in config.handlers:
            note = getattr(handler, "note", None)
            if callable(note):
                self.notes.append((handler.name, note))

    def restarting(self, under_way: bool) -> None:
        self._restarting = under_way

    def shutdown(self) -> None:
        self.stopping = not self._restarting

    def missing(self) -> list[str]:
        """Names of the plugins that are not ready, sorted."""
        names = []
        for name, check in sorted(self.checks.items()):
            if name in self._was_ready and not self.continuously:
                continue
            try:
                ready = check()
            except BaseException as error:
                log.error(f"plugin/{name} does not say whether it is ready: {type(error).__name__}")
                ready = False
            if ready:
                self._was_ready.add(name)
            else:
                names.append(name)
        return names

    def page(self, request: Request) -> Reply:
        if self.stopping:
            return Reply(503, b"Shutting down")
        names = ",".join(self.missing())
        if not names:
            notes = [f"plugin/{name}: {text}" for name, note in self.notes if (text := note())]
            return Reply(body="\n".join(["OK", *notes]).encode())
        log.info(f'Plugins not ready: "{names}"')
        return Reply(503, names.encode())
