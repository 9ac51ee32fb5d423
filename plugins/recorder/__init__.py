"""recorder: keeps the last queries in memory, and the slow, failed and dropped ones longer (a flight recorder)."""

from __future__ import annotations

from weakref import WeakValueDictionary

from fastdns.plugins.recorder._memory import Recording
from fastdns.plugins.recorder._recorder import RecorderHandler
from fastdns.plugins.recorder.settings import Settings, parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: Rules that read the metrics of `prometheus`.
NEED_METRICS = ("p99", "servfail")

#: Memory by what the Corefile says of it: blocks that say the same share it, and so do the configurations before and after a reload.
_recordings: WeakValueDictionary[Settings, Recording] = WeakValueDictionary()


def setup(controller: Controller) -> RecorderHandler:
    """``recorder SIZE { … }``"""
    from fastdns.plugins.recorder.service import Service, service

    settings, files = parse(controller)
    recording = _recordings.get(settings)
    if recording is None:
        recording = _recordings[settings] = Recording(*settings)
    handler = RecorderHandler(recording)
    started: list[Service] = []

    def check() -> None:
        for rule in files.rules:
            if rule.subject in NEED_METRICS and controller.config.handler("prometheus") is None:
                raise ValueError(f"plugin/recorder: 'when {rule.subject}' needs prometheus in the server block")

    def start() -> None:
        handler.name_chain(controller.config.handlers)
        started.append(service(recording, files))
        started[-1].start()

    def stop() -> None:
        while started:
            started.pop().stop()

    controller.on_complete(check)
    controller.on_startup(start)
    controller.on_shutdown(stop)
    return handler
