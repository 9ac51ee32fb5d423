"""slo: the share of queries that are to be answered within a time, and how many are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry import metrics, status

__all__ = ["Objective", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

#: Of an objective: a smaller share leaves a budget that no burn rate worth an alert can use up.
LEAST, MOST = 50.0, 100.0
#: Labels of the metrics.
ZONE = ("server", "zone", "view")
RESULTS = ("within", "late", "failed")


class Objective(NamedTuple):
    """A block's objective, as its Corefile has it."""

    percent: str
    #: A Go duration.
    time: str
    nanoseconds: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return float(self.percent) / 100


def setup(controller: Controller) -> None:
    """``slo PERCENT% DURATION``."""
    objective = parse(controller)
    controller.config.values["slo"] = objective
    from fastdns.plugins.slo._slo import SloHandler

    controller.config.add_handler(SloHandler("slo", objective.share, objective.nanoseconds))
    controller.on_started(lambda: status.provide("slo", section))


def section(request: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``slo`` of the status document: the objectives that are exposed, and how the queries did; empty where no block has one any more."""
    ratios, counts = (dict(metrics.registry[f"fastdns_slo_{name}"].collect()) for name in ("objective_ratio", "queries_total"))
    found = []
    for key, seconds in metrics.registry["fastdns_slo_objective_seconds"].collect():
        results = {result: counts.get((*key, result), 0) for result in RESULTS}
        found.append({**dict(zip(ZONE, key, strict=True)), "share": ratios.get(key), "seconds": seconds, **results})
    return {"objectives": found} if found else {}


def parse(controller: Controller) -> Objective:
    """Raises CorefileError."""
    while controller.once():
        percent, time = controller.args(2, 2)
        if controller.next_block():
            raise controller.err("slo takes no options")
    if not percent.endswith("%"):
        raise CorefileError(f"the share of an objective ends in %: {quoted(percent)}")
    try:
        share, nanoseconds = controller.decimal(percent[:-1]), controller.duration(time)
    except ValueError as error:
        raise CorefileError(f"invalid objective: {error}") from None
    if not LEAST <= share < MOST:
        raise CorefileError(f"the share of an objective must be in range [50%, 100%): {percent}")
    if nanoseconds <= 0:
        raise CorefileError(f"the time of an objective must be positive: {time}")
    return Objective(percent[:-1], time, nanoseconds)
