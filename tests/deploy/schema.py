"""Whether an object is one of the published API: every field known, of its type, and none missing.

The models of the `kubernetes` package are generated from the API's OpenAPI document, so they are that schema.
"""

from __future__ import annotations

import re
from typing import Any

from kubernetes import client

PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (float, int), "datetime": (str,)}
VALIDATING = client.Configuration()
VALIDATING.client_side_validation = True


def model(document: dict[str, Any]) -> str:
    """The name of the model for an object: ``V1Deployment`` for apps/v1 Deployment."""
    return document["apiVersion"].rpartition("/")[2].capitalize() + document["kind"]


def problems(value: Any, kind: str, path: str = "") -> list[str]:
    """What is wrong with a value of a type as the models name it, each with its path."""
    if value is None:
        return [f"{path}: nothing stands there"]
    if inner := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [found for number, item in enumerate(value) for found in problems(item, inner[1], f"{path}.{number}")]
    if inner := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no map"]
        return [found for key, item in value.items() for found in problems(item, inner[1], f"{path}.{key}")]
    if kind == "object":
        return []
    if kind in PLAIN:
        good = isinstance(value, PLAIN[kind]) and (kind == "bool" or not isinstance(value, bool))
        return [] if good else [f"{path}: {value!r} is no {kind}"]
    cls = getattr(client, kind, None)
    if cls is None:
        return [f"{path}: no {kind} in the API"]
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no {kind}"]
    types = {published: cls.openapi_types[name] for name, published in cls.attribute_map.items()}
    found = [f"{path}.{key}: no field of {kind}" for key in value if key not in types]
    for key, item in value.items():
        if key in types:
            found += problems(item, types[key], f"{path}.{key}")
    try:
        if hasattr(cls, "model_validate"):  # models of newer packages
            cls.model_validate(value)
        else:
            cls(local_vars_configuration=VALIDATING, **{name: value.get(published) for name, published in cls.attribute_map.items()})
    except ValueError as error:  # a required field is missing, or a value is none of its enumeration
        found.append(f"{path}: {error}")
    return found


def check(document: dict[str, Any]) -> None:
    """Asserts that the object is valid."""
    kind = model(document)
    label = f"{document['kind']} {document['metadata']['name']}"
    assert problems(document, kind, label) == []
