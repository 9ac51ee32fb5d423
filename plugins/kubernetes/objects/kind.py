"""Kinds of objects as a plugin declares them: where they are in the API, and the fields that are read of each object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from fastdns.plugins.kubernetes.watch.resources import Resource
from fastdns.plugins.kubernetes.watch.selectors import Selector

__all__ = ["KubernetesObject", "ObjectKind", "Reference", "Watched"]

#: Fields of every object, in front of those declared.
METADATA = (("namespace", "metadata.namespace", str), ("name", "metadata.name", str), ("version", "metadata.resourceVersion", str))


class ObjectKind:
    """A kind of objects: API group ("" for the core group), versions of which the first one that the server has is read, plural, and fields.

    ``fields`` has by name a path of JSON keys (``spec.hostnames``) and the type there: ``str``, ``int``, ``list[str]``, ``dict[str, str]`` or a
    `msgspec.Struct`; a field that is missing or null is None. Nothing else of an object is kept. An ``optional`` kind may be unknown to the server,
    as one of a CustomResourceDefinition: there are then no objects, until it is installed. Raises ValueError for paths that exclude each other.
    """

    def __init__(self, group: str, versions: tuple[str, ...] | list[str], plural: str, fields: Mapping[str, tuple[str, Any]], *, optional: bool = True) -> None:
        self.group = group
        self.versions = tuple(versions)
        self.plural = plural
        self.optional = optional
        self.fields = tuple((name, path, leaf) for name, (path, leaf) in fields.items())
        self.places = {name: place for place, (name, _, _) in enumerate(self.fields)}
        self._hash = hash((group, self.versions, plural))
        self._key = (group, self.versions, plural, optional, self.fields)
        self._decoder = msgspec.json.Decoder(_model([*METADATA, *self.fields]))
        self._metadata = msgspec.json.Decoder(_model(list(METADATA)))
        self._paths = [tuple(path.split(".")) for _, path, _ in (*METADATA, *self.fields)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKind) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def resource(self, version: int) -> Resource:
        """Where the objects are in a version."""
        root = f"/apis/{self.group}/{self.versions[version]}" if self.group else f"/api/{self.versions[version]}"
        return Resource(f"{root}/{self.plural}", f"{self.plural}.{self.group}/{self.versions[version]}", accept="application/json")

    def decode(self, octets: bytes | msgspec.Raw) -> tuple[KubernetesObject, str]:
        """An object from JSON, and why its fields are not of their types ("").

        Raises msgspec.DecodeError and UnicodeError for what is no object, RecursionError for one that is nested too deep.
        """
        try:
            model, defect = self._decoder.decode(octets), ""
        except msgspec.ValidationError as error:
            model, defect = self._metadata.decode(octets), str(error)
        namespace, name, version, *values = (_at(model, path) for path in (self._paths if not defect else self._paths[: len(METADATA)]))
        if not name:
            raise msgspec.DecodeError("an object without a name")
        return KubernetesObject(self, namespace or "", name, number_of(version or ""), version or "", tuple(values)), defect


def number_of(version: str) -> int:
    """A resource version as a number; 0 if it is none."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0


class KubernetesObject:
    """An object's namespace, name and the fields that its kind declares: ``found["hostnames"]``."""

    __slots__ = ("kind", "name", "namespace", "number", "values", "version")

    def __init__(self, kind: ObjectKind, namespace: str, name: str, number: int, version: str, values: tuple[Any, ...]) -> None:
        self.kind = kind
        #: "" of an object that is in none.
        self.namespace = namespace
        self.name = name
        #: The resource version, and as a number: 0 if it is none.
        self.version = version
        self.number = number
        self.values = values

    def __getitem__(self, field: str) -> Any:
        """A field, None if the object lacks it. Raises KeyError for one that is not declared."""
        return self.values[self.kind.places[field]]

    def __repr__(self) -> str:
        return f"{self.kind!r} {self.namespace}/{self.name}" if self.namespace else f"{self.kind!r} {self.name}"


@dataclass(frozen=True)
class Watched:
    """The objects of a kind that a label selector takes: what one watch brings."""

    kind: ObjectKind
    selector: Selector = field(default_factory=Selector)

    def __hash__(self) -> int:
        return hash(self.kind)


class Reference(NamedTuple):
    """An object, among those of all watches."""

    watched: Watched
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.watched.kind!r} {self.namespace}/{self.name}"


def _model(fields: list[tuple[str, str, Any]]) -> Any:
    """A Struct that has the paths, by nested ones."""
    tree: dict[str, Any] = {}
    for _, path, leaf in fields:
        *inner, last = path.split(".")
        at = tree
        for key in inner:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                raise ValueError(f"the field {path} is inside of another one")
        if last in at:
            raise ValueError(f"the field {path} is declared twice, or has others inside")
        at[last] = leaf
    return _struct(tree)


def _struct(tree: dict[str, Any]) -> Any:
    names = [(f"_{place}", key, inner) for place, (key, inner) in enumerate(tree.items())]
    types = [(name, (_struct(inner) if isinstance(inner, dict) else inner) | None, msgspec.field(name=key, default=None)) for name, key, inner in names]
    return msgspec.defstruct("Model", types, namespace={"paths": {key: name for name, key, _ in names}}, gc=False)


def _at(model: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if model is None:
            return None
        model = getattr(model, model.paths[key])
    return model
