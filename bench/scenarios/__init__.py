"""What `fastdns-bench run` and `compare` can measure, by name."""

from __future__ import annotations

from fastdns.bench.scenarios.clusters import Churn, ClusterNames, Doh, Doq, Dot, Flood, Relist, Tcp
from fastdns.bench.scenarios.names import Cache, File, Fixed, Forward, Log
from fastdns.bench.scenarios.processes import Gil, PythonPlugin, Reload
from fastdns.bench.scenarios.scenario import SATURATED, Disturbance, Scenario, ScenarioError, Stage, Variant, merge_figures
from fastdns.bench.scenarios.transports import Transports

__all__ = ["SATURATED", "SCENARIOS", "Disturbance", "Scenario", "ScenarioError", "Stage", "Variant", "merge_figures"]

SCENARIOS: dict[str, Scenario] = {
    kind.name: kind()
    for kind in (Fixed, ClusterNames, Cache, Forward, File, Tcp, Dot, Doh, Doq, PythonPlugin, Reload, Churn, Relist, Flood, Gil, Log, Transports)
}
