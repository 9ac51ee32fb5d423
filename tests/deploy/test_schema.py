"""The check of objects finds what an API server would refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.deploy.schema import model, problems

GOOD: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 53}]}]}}},
}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.replicas", 2, ""),
        ("spec.replicas", "2", "is no int"),
        ("spec.replicaCount", 2, "no field of V1DeploymentSpec"),
        ("spec.selector", None, "nothing stands there"),
        ("spec.template.spec.containers", {}, "is no list"),
        ("spec.template.spec.containers.0.image", 1, "is no str"),
        ("spec.template.spec.containers.0.name", ..., "name"),
        ("spec.template.spec.containers.0.ports.0.containerPort", True, "is no int"),
        ("metadata.labels", {"a": True}, "is no str"),
        ("kind", "Deploymint", "no V1Deploymint"),
    ],
)
def test_problem(path: str, value: Any, said: str) -> None:
    document = copy.deepcopy(GOOD)
    *parts, last = path.split(".")
    place: Any = document
    for part in parts:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    found = " ".join(problems(document, model(document)))
    assert said in found if said else not found
