"""`manifests PATH…`: objects from files as `kubectl get -o yaml` (or json) writes them, followed for changes; no API server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdns.control import Signal, blocking, sleep
from fastdns.plugins.kubernetes.decode.splitter import Splitter
from fastdns.plugins.kubernetes.decode.stream import Stream, StreamError
from fastdns.plugins.kubernetes.watch.connection import stamps
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.watch.problems import Failure, Report
from fastdns.plugins.kubernetes.watch.resources import SERVICE_NAME, Kind
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.control.eventloop import TaskGroup
    from fastdns.plugins.kubernetes.decode.refusals import Refusals
    from fastdns.plugins.kubernetes.watch.informers import Cluster

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl", ".ndjson")
#: Seconds between two looks at the files.
LOOK = 1.0
#: Octets read at once.
PIECE = 262144
MANIFESTS = 1  # Source of _objects.pxd

KINDS = {
    "Namespace": Kind.NAMESPACE,
    "Service": Kind.SERVICE,
    "EndpointSlice": Kind.SLICE,
    "Pod": Kind.POD,
    "ServiceImport": Kind.IMPORT,
}
FINISHED = ("Succeeded", "Failed", "Unknown")

log = Log("plugin/kubernetes")


class ManifestError(ValueError):
    """A file that will not do; the text says where."""


@dataclass(frozen=True)
class Manifests:
    """The files and folders of a `manifests` property."""

    paths: tuple[str, ...]
    key: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", ("manifests", tuple(os.path.abspath(path) for path in self.paths)))

    @property
    def host(self) -> str:
        return " ".join(self.paths)

    def check(self) -> None:
        """ApiConfigError when a path is missing."""
        for path in self.paths:
            if not os.path.exists(path):
                raise ApiConfigError(f"manifests: {path}: no such file or folder")

    def files(self) -> list[Path]:
        """What there is to read, in a steady order; of folders the files with a known ending."""
        found: list[Path] = []
        for path in map(Path, self.paths):
            if path.is_dir():
                found += sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES and not entry.name.startswith(".") and entry.is_file())
            elif path.exists():
                found.append(path)
        return found


# ---- reading ----

Found = tuple[Kind, Any]


def read(path: Path) -> Iterator[Found]:
    """The objects of a file that DNS can use, as models. ManifestError, OSError."""
    return read_yaml(path) if path.suffix in (".yaml", ".yml") else read_json(path)


def line_at(path: Path, offset: int) -> int:
    """The line of an offset in a file."""
    with open(path, "rb") as file:
        return 1 + file.read(offset).count(b"\n")


def values(path: Path, items: bool) -> Iterator[tuple[bytes, int, str]]:
    """Values of a JSON file with their offsets and the kind that their list implies."""
    splitter = Splitter(items)
    implied = ""
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            at = file.tell() - len(piece)
            try:
                found = splitter.feed(piece)
            except StreamError as error:
                raise ManifestError(f"{path}:{line_at(path, at)}: {error}") from None
            if items and found and not implied:
                kind = re.search(rb'"kind"\s*:\s*"(\w+)List"', splitter.around)
                implied = kind[1].decode() if kind else "?"
            for value, offset in found:
                yield value, offset, implied
    if not splitter.complete:
        raise ManifestError(f"{path}: the file ends in the middle of a value")
    if items and not implied:  # no list at all: one object
        yield splitter.around, 0, ""


def listed(path: Path) -> bool:
    """Whether a .json file is one value, as kubectl writes it, rather than one after another."""
    try:
        for _ in values(path, True):
            pass
    except ManifestError:
        return False
    return True


def read_json(path: Path) -> Iterator[Found]:
    import msgspec

    from fastdns.plugins.kubernetes.decode import models

    class Head(msgspec.Struct):
        kind: str | None = None

    head = msgspec.json.Decoder(Head)
    decoders = [msgspec.json.Decoder(model) for model in models.BY_KIND]
    for value, offset, implied in values(path, path.suffix == ".json" and listed(path)):
        try:
            name = head.decode(value).kind or implied
            if name.endswith("List") and name not in KINDS:
                yield from _list_line(value, name)
            elif name in KINDS:
                yield KINDS[name], decoders[KINDS[name]].decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ManifestError(f"{path}:{line_at(path, offset)}: {error}") from None


def _list_line(value: bytes, name: str) -> Iterator[Found]:
    """A whole List as one of several values."""
    import msgspec

    for item in msgspec.json.decode(value).get("items") or ():
        yield from convert(item, name.removesuffix("List"))


def convert(item: Any, implied: str = "") -> Iterator[Found]:
    """A plain mapping as a model, with the objects of a List inside of it. msgspec.ValidationError."""
    import msgspec

    from fastdns.plugins.kubernetes.decode import models

    if not isinstance(item, dict):
        raise msgspec.ValidationError("an object is expected")
    name = item.get("kind") or implied
    if isinstance(name, str) and name.endswith("List"):
        for one in item.get("items") or ():
            yield from convert(one, name.removesuffix("List"))
    elif name in KINDS:
        yield KINDS[name], msgspec.convert(item, models.BY_KIND[KINDS[name]])


def read_yaml(path: Path) -> Iterator[Found]:
    import msgspec
    import yaml

    from fastdns.plugins.kubernetes.watch.yaml_loader import Loader, position, problem

    with open(path, "rb") as file:
        line = 1
        loader = Loader(file)
        try:
            while loader.check_node():
                node = loader.get_node()
                line = node.start_mark.line + 1
                document = loader.construct_document(node)
                del node
                if document is not None:
                    yield from convert(document)
        except yaml.YAMLError as error:
            raise ManifestError(f"{path}:{position(error) or line}: {problem(error)}") from None
        except (msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise ManifestError(f"{path}:{line}: {error}") from None
        finally:
            loader.dispose()


# ---- serving ----


class ManifestFeed:
    """Reads the files into the store, again whenever one changes."""

    direct = False

    def __init__(self, cluster: Cluster[Kind], manifests: Manifests, tasks: TaskGroup) -> None:
        self.cluster = cluster
        self.manifests = manifests
        self.tasks = tasks
        self.kinds: frozenset[Kind] = frozenset()
        self.changed = Signal()
        self.streams: dict[Kind, Stream] = {}
        self.seen: object = None
        self.loaded = False
        self.reported: set[str] = set()
        self.failure: Failure | None = None
        self.running = False

    def watch(self, kinds: frozenset[Kind]) -> None:
        self.kinds = kinds
        if self.running:
            self.changed.wake()
        else:
            self.running = True
            self.tasks.keep(self._run, "the look at manifests")

    def finish(self) -> None:
        """Nothing is kept."""

    def reports(self, now: float) -> Iterable[Report]:
        reported = self.reported
        if not reported:
            self.failure = None
        elif self.failure is None:
            self.failure = Failure(now, "")
        if self.failure is not None:
            self.failure.again(now, min(reported), answers=False)
        yield Report("manifests", None, self.failure)

    def refusals(self) -> Iterable[Refusals]:
        return [stream.refusals for stream in list(self.streams.values())]

    async def _run(self) -> None:
        """Look at the files, the first time on the loop's thread: until then it runs at full priority, and threads of the pool are niced."""
        self._look(self.kinds)
        while True:
            if self.kinds == self.streams.keys():
                await sleep(LOOK, self.changed)
            await blocking(self._look, self.kinds)

    def _look(self, kinds: frozenset[Kind]) -> None:
        """Read everything when anything changed."""
        for kind in self.streams.keys() - kinds:
            self.streams.pop(kind).drop()
            self.cluster.unmark(kind)
        for kind in sorted(kinds - self.streams.keys()):
            self.streams[kind] = Stream(self.cluster.sink, kind, self.cluster.options.pod_labels)
            self.loaded = False
            self.seen = None
        files = self.manifests.files()
        seen = (files, stamps(*files))
        if seen == self.seen:
            return
        try:
            self._read(files)
        except MemoryError:
            # Nothing was taken away, and what had not come before does not count as absent. All comes again in a moment.
            self._report({"out of memory"})
            self.seen = None
        else:
            self.seen = seen

    def _read(self, files: list[Path]) -> None:
        good, reports = [], set()
        for path in files:
            try:
                for kind, model in read(path):
                    check(path, kind, model)
                good.append(path)
            except (ManifestError, OSError) as error:
                reports.add(str(error))
            except Exception as error:  # a file that no reader foresees costs itself
                if isinstance(error, MemoryError):
                    raise
                reports.add(f"{path}: {type(error).__name__}: {error}")
        self._report(reports)
        self._load(good, whole=not reports)

    def _report(self, reports: set[str]) -> None:
        """Log messages that were not logged the last time."""
        for report in sorted(reports - self.reported):
            log.error(f"manifests: {report}")
        self.reported = reports

    def _load(self, files: list[Path], whole: bool) -> None:
        """Hand everything over. With a bad file among them nothing is taken away, so that what it held stays."""
        for stream in self.streams.values():
            stream.begin_list(MANIFESTS)
        namespaces: set[str] = set()
        implied = True
        try:
            for path in files:
                for kind, model in read(path):
                    namespace = model.metadata.namespace
                    if kind is Kind.NAMESPACE:
                        implied = False
                    elif not namespace:
                        namespace = model.metadata.namespace = "default"
                    if namespace:
                        namespaces.add(namespace)
                    self._give(kind, model)
            if implied:  # files without any Namespace: those that their objects are in
                self._imply(namespaces)
        except (ManifestError, StreamError, OSError) as error:
            log.error(f"manifests: {error}")
            whole = False
        for kind, stream in self.streams.items():
            if whole or not self.loaded:
                stream.commit_list()
                self.cluster.mark(kind)
            else:
                stream.flush()
        self.loaded = True

    def _give(self, kind: Kind, model: Any) -> None:
        labels = model.metadata.labels
        kinds = (Kind.SLICE, Kind.IMPORT_SLICE) if kind is Kind.SLICE else (kind,)
        if kind is Kind.POD and model.status is not None and model.status.phase in FINISHED:
            return
        for one in kinds:
            stream = self.streams.get(one)
            if one is Kind.IMPORT_SLICE and SERVICE_NAME not in (labels or {}):
                continue
            if stream is not None and self.cluster.options.selectors.of(one).matches(labels):
                try:
                    stream.give(model)
                except (StreamError, UnicodeError) as error:
                    stream.withdraw(model.metadata.namespace or "", model.metadata.name, "")
                    stream.refusals.add(model.metadata.namespace or "", model.metadata.name, str(error))

    def _imply(self, namespaces: set[str]) -> None:
        from fastdns.plugins.kubernetes.decode import models

        for name in sorted(namespaces):
            labels = {"kubernetes.io/metadata.name": name}
            self._give(Kind.NAMESPACE, models.Namespace(metadata=models.Metadata(name=name, labels=labels)))


def check(path: Path, kind: Kind, model: Any) -> None:
    """What every object must have. ManifestError."""
    if not model.metadata.name:
        raise ManifestError(f"{path}: a {kind.name.lower()} without a name")
