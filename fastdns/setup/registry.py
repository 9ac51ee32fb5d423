"""The registry of directives: their order, which is that of the chain, and their set-ups.

In-tree plugins are listed in ``plugin.cfg``; one is imported when a Corefile first uses it. Other packages add
theirs through the entry-point group ``fastdns.plugins``, which is read only when a directive is unknown or
all are to be listed, or through `register`.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import re
import types
from collections.abc import Callable
from typing import Any

import fastdns
from fastdns.corefile.errors import CorefileError, defect, plugin_frames
from fastdns.setup.guard import call
from fastdns.setup.traits import Traits

__all__ = [
    "DEFAULT_ANCHOR",
    "Setup",
    "anchored",
    "built",
    "folder_of",
    "in_order",
    "known",
    "load",
    "load_file",
    "part",
    "register",
    "traits",
    "unloadable",
    "unregister",
]

#: A plugin's set-up: takes the controller. None, or a handler to be added to the chain.
Setup = Callable[[Any], Any]

#: A plugin from another package is placed above this directive unless it has `before` or `after`.
DEFAULT_ANCHOR = "forward"

GROUP = "fastdns.plugins"

#: Cython's error for a module that was compiled against other declarations.
REBUILD = r"fastdns\..*(size changed, may indicate binary incompatibility|has wrong signature|does not export expected C)"

#: Directive that loads a plugin from a file, which determines its place in the chain; see `load_file`.
FILE_DIRECTIVE = "plugin"


class Added:
    """A plugin that is not in plugin.cfg."""

    __slots__ = ("after", "before", "name", "origin", "setup", "traits")

    def __init__(self, name: str, setup: Setup, before: str, after: str, origin: str, traits: Traits) -> None:
        self.name = name
        self.setup = setup
        self.before = before
        self.after = after
        self.origin = origin
        self.traits = traits


_in_tree: dict[str, str] = {}
_added: dict[str, Added] = {}
_entry_points_read = False


def register(name: str, setup: Setup, *, before: str = "", after: str = "", traits: Traits | None = None) -> None:
    """Add a directive whose plugin is not in the tree.

    Its place is just above the directive ``before``, just below ``after``, or by default above ``forward``.
    Raises ValueError when the name is taken or the other directive does not exist.
    """
    _add(Added(name, setup, before, after, "register()", traits or Traits()))


def unregister(name: str) -> None:
    """Take back what `register` added. Raises KeyError."""
    del _added[name]


def in_tree() -> dict[str, str]:
    """Directive to folder below ``plugins/``, in the order of plugin.cfg."""
    if not _in_tree:
        with open(os.path.join(fastdns.get_include(), "plugin.cfg"), encoding="utf-8") as file:
            for line in file:
                name, separator, folder = line.partition("#")[0].strip().partition(":")
                if separator:
                    _in_tree[name.strip()] = folder.strip()
    return _in_tree


def known(name: str) -> bool:
    """Whether a directive exists, built or not. Raises CorefileError when two packages claim one name."""
    if name in in_tree() or name in _added or name == FILE_DIRECTIVE:
        return True
    _read_entry_points()
    return name in _added


def in_order() -> list[str]:
    """All directives known so far, outermost first."""
    return anchored(list(in_tree()), [(plugin.name, plugin.before, plugin.after) for plugin in _added.values()])


def anchored(order: list[str], additions: list[tuple[str, str, str]]) -> list[str]:
    """``order`` with additions inserted: (name, before, after). Additions at one place keep their order; ``before`` may be another addition.

    Raises ValueError for a place that does not exist.
    """
    rest = additions
    below: dict[str, int] = {}  # number of additions already placed after a directive
    while rest:
        left = []
        for name, before, after in rest:
            anchor = after or before or DEFAULT_ANCHOR
            if anchor not in order:
                left.append((name, before, after))
            elif after:
                below[after] = below.get(after, 0) + 1
                order.insert(order.index(after) + below[after], name)
            else:
                order.insert(order.index(anchor), name)
        if len(left) == len(rest):
            name, before, after = rest[0]
            raise ValueError(f"plugin {name}: there is no directive {after or before} to stand {'after' if after else 'before'}")
        rest = left
    return order


def built() -> list[str]:
    """Directives that can be used: those whose folder is there, and all from other packages; alphabetical, `on` last."""
    _read_entry_points()
    names = [name for name, folder in in_tree().items() if folder_of(folder)]
    return sorted([*names, *_added, FILE_DIRECTIVE], key=lambda name: (name == "on", name))


def load(name: str) -> Setup:
    """The set-up of a known directive. Raises CorefileError when its plugin is not compiled, ImportError when it cannot be imported."""
    if name in _added:
        return _added[name].setup
    folder = in_tree()[name]
    try:
        module = importlib.import_module(f"fastdns.plugins.{folder}")
    except ImportError:
        if _uncompiled(folder_of(folder)):  # in a source tree where make run alone has built what it needs
            raise CorefileError(f"directive '{name}' is not compiled: make build compiles every plugin") from None
        raise
    setup: Setup = module.setup
    return setup


def part(name: str, module: str) -> Any:
    """A module of a plugin of ours, for a command that needs what the plugin knows. Raises ImportError."""
    return importlib.import_module(f"fastdns.plugins.{in_tree()[name]}.{module}")


def traits(name: str) -> Traits:
    """What the plugin of a known directive declares; the defaults where it declares nothing, or is not there."""
    if name in _added:
        return _added[name].traits
    folder = in_tree().get(name, "")
    if not folder or not folder_of(folder):
        return Traits()
    try:
        return _declared(importlib.import_module(f"fastdns.plugins.{folder}"))
    except Exception:
        return Traits()  # `load` says why


def _declared(*owners: object) -> Traits:
    """The attribute ``TRAITS`` of the first that has one. Raises TypeError where it is none."""
    found = next((owner.TRAITS for owner in owners if hasattr(owner, "TRAITS")), Traits())
    if not isinstance(found, Traits):
        raise TypeError(f"TRAITS is {type(found).__name__} and not fastdns.plugin.Traits")
    return found


def unloadable(error: BaseException) -> str:
    """Why a plugin's module cannot be imported; of one that was compiled against other headers of ours, what to do."""
    text = defect(error)
    if not re.search(REBUILD, str(error)):
        return text
    from fastdns._mux import api

    version, fingerprint = api()
    return f"{text}: it was built against other headers; this is fastdns {version} with API fingerprint {fingerprint}: rebuild it against this one"


def origin(name: str) -> str:
    """The package that brings a plugin, or the plugin's own name where it is ours or unknown."""
    return _added[name].origin if name in _added and _added[name].origin else name


def folder_of(folder: str) -> str:
    """Path of an in-tree plugin's folder; "" when it is not there."""
    for top in importlib.import_module("fastdns.plugins").__path__:
        if os.path.isfile(os.path.join(top, folder, "__init__.py")):
            return os.path.join(top, folder)
    return ""


def _uncompiled(folder: str) -> bool:
    """Whether a folder has the source of a native module without the module."""
    files = set(os.listdir(folder))
    stems = [name.removesuffix(".pyx") for name in files if name.endswith(".pyx")]
    return any(not files.intersection(stem + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES) for stem in stems)


def load_file(path: str) -> tuple[Setup, str, str, Traits]:
    """The ``setup`` of a plugin that is a Python file, and its module attributes ``before``, ``after`` and ``TRAITS``.

    The file is compiled and run anew each time, so that a reload takes up what was changed. Raises CorefileError, without the Corefile's place.
    """
    import importlib.util
    import sys
    from importlib.machinery import SourceFileLoader

    class Uncached(SourceFileLoader):
        # Cached byte code is valid by size and whole seconds of the file: an edit of the same second and size would not be seen.
        def get_code(self, fullname: str) -> types.CodeType:
            return self.source_to_code(self.get_data(path), path)

    stem = os.path.splitext(os.path.basename(path))[0]
    name = f"fastdns_file_{stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise CorefileError(f"{path} is no Python file")
    if isinstance(specification.loader, SourceFileLoader):
        specification.loader = Uncached(name, path)
    module = importlib.util.module_from_spec(specification)
    before = sys.modules.get(name)
    sys.modules[name] = module  # as dataclasses and pickle want it
    try:
        call(specification.loader.exec_module, module)
        setup: Setup = module.setup
        if not callable(setup):
            raise TypeError("setup is no function")
        declared = _declared(module)
    except Exception as error:
        if isinstance(error, FileNotFoundError) and error.filename == path:
            raise CorefileError(f"open {path}: no such file or directory") from None
        raise CorefileError(f"{path}: {unloadable(error)}", frames=plugin_frames(error)) from error
    finally:
        if before is not None and "setup" not in vars(module):
            sys.modules[name] = before
    return setup, getattr(module, "before", ""), getattr(module, "after", ""), declared


def _add(plugin: Added) -> None:
    taken = _added.get(plugin.name)
    if plugin.name in in_tree() or plugin.name == FILE_DIRECTIVE:
        raise ValueError(f"plugin {plugin.name} of {plugin.origin}: fastdns has a directive of that name")
    if taken is not None:
        raise ValueError(f"plugin {plugin.name} of {plugin.origin}: {taken.origin} has a directive of that name")
    if plugin.before and plugin.after:
        raise ValueError(f"plugin {plugin.name} of {plugin.origin}: says both before and after")
    _added[plugin.name] = plugin
    try:
        in_order()
    except ValueError:
        del _added[plugin.name]
        raise


def _read_entry_points() -> None:
    """Adds the plugins of installed packages. ``NAME = package.module[:setup]``; ``before``, ``after`` and ``TRAITS`` are attributes of either."""
    global _entry_points_read
    if _entry_points_read:
        return
    from importlib.metadata import entry_points

    waiting = []
    for point in entry_points(group=GROUP):
        origin = point.dist.name if point.dist is not None else point.value
        try:
            found = call(point.load)
            setup = found if callable(found) else found.setup
            module = importlib.import_module(point.module)
            declared = _declared(found, module)
        except Exception as error:
            raise CorefileError(f"plugin/{point.name}: {origin} cannot be imported: {unloadable(error)}") from error
        places = [str(getattr(found, side, "") or getattr(module, side, "")) for side in ("before", "after")]
        waiting.append(Added(point.name, setup, places[0], places[1], origin, declared))
    # A plugin's place may refer to one that is added later.
    while waiting:
        left, problem = [], None
        for plugin in waiting:
            try:
                _add(plugin)
            except ValueError as error:
                problem = error
                left.append(plugin)
        if len(left) == len(waiting):
            raise CorefileError(str(problem))
        waiting = left
    _entry_points_read = True
