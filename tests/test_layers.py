"""Imports and cimports go one way: packages stand in one order, and each uses only those above it in the list. Nor do modules form a cycle.

Imports inside functions and those for types alone count, and so does `importlib`: only the registry of directives loads by name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TREES = {"fastdns": ROOT / "fastdns", "fastdns.plugins": ROOT / "plugins", "fastdns.bench": ROOT / "bench"}
#: From what needs nothing to what needs everything.
ORDER = [
    "fastdns",
    "fastdns.system",
    "fastdns.protocol",
    "fastdns._wire",
    "fastdns.telemetry",
    "fastdns.message",
    "fastdns.zonefile",
    "fastdns.index",
    "fastdns.proxy",
    "fastdns.walk",
    "fastdns._mux",
    "fastdns.control",
    "fastdns.tls",
    "fastdns.corefile",
    "fastdns.engine",
    "fastdns.executor",
    "fastdns.query",
    "fastdns.setup",
    "fastdns.expression",
    "fastdns.httpd",
    "fastdns.comparison",
    "fastdns.plugin",
    "fastdns.api",
    "fastdns.top",
    "fastdns.migrate",
    "fastdns.server",
    "fastdns.testing",
    "fastdns.__main__",
    "fastdns.node",
    "fastdns.plugins",
    "fastdns.bench",
]
#: Modules of a folder, where `.pyx`, `.pxd` and `.pyi` of one name count once.
MODULES_MAX = 25
#: Fields `void *`: contexts that their owner hands to a function of its own. Any other one hides a struct.
CONTEXTS = {"attachment", "argument", "connection", "context", "data", "iov_base", "msg_control", "msg_name", "owner", "ptr", "state", "task"}
#: Fields `void *` of another kind, none of which hides a struct of a package above: by module and field.
UNTYPED = {
    "fastdns.engine.io.connection.spare": "memory that is free, linked by its first word",
    "fastdns.expression.matcher.compiled": "an RE2 of C++",
    "fastdns.index.index.file": "NodeFile of the same package, which is made of its nodes",
    "fastdns.index.node_file.mutex": "a pthread mutex",
    "fastdns.index.nodes.file": "NodeFile of the same package, which is made of its nodes",
    "fastdns.index.nodes.mutex": "a pthread mutex",
    "fastdns.index.nodes.slot_file": "SlotFile of the same package, which is made of its slots",
    "fastdns.index.zone.slots": "ZoneSlots of the same module, exchanged atomically",
    "fastdns.walk.query.awaited": "compared, not followed",
    "fastdns.zonefile.parser.self": "the context of the caller's function",
    "fastdns.zonefile.parser.outermost": "a Frame of the .pyx of the same name",
    "fastdns.plugins.file._file.zones": "ZoneSlots, exchanged atomically",
    "fastdns.plugins.forward._upstream.shared": "a question of a handler below, in the same plugin",
    "fastdns.plugins.kubernetes.decode.objects.self_": "the context of the sink's functions",
    "fastdns.plugins.kubernetes.store.memory.block": "memory that is freed later",
    "fastdns.plugins.kubernetes.store.memory.pages": "memory, linked by its first word",
    "fastdns.plugins.kubernetes.store.records.lock": "a pthread mutex",
    "fastdns.bench.generator.client.stream": "the connection of the transport in use",
    "fastdns.bench.generator.client.tls": "an SSL_CTX of OpenSSL",
    "fastdns.bench.generator.connection.ssl": "an SSL of OpenSSL",
}
LOADS_BY_NAME = {"fastdns.setup.registry"}

IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]*)|c?import[ \t]+(fastdns[\w.]*))", re.M)

pytestmark = pytest.mark.skipif(not (ROOT / "plugin.cfg").is_file(), reason="the source tree is not here")


def sources() -> Iterator[tuple[str, Path]]:
    for name, folder in TREES.items():
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".pyx", ".pxd") and "__pycache__" not in path.parts:
                parts = path.relative_to(folder).with_suffix("").parts
                yield ".".join([name, *(parts[:-1] if parts[-1] == "__init__" else parts)]), path


def imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each imported module, with the names that are taken from it."""
    text = re.sub(r'"""(?:.|\n)*?"""', "", text)
    for module, names, whole in IMPORT.findall(text):
        taken = [word.split(" as ")[0].strip() for word in re.sub(r"#.*", "", names).strip("() \n").replace("\n", " ").split(",")]
        yield whole or module, taken


FILES = list(sources())
MODULES = {name for name, _ in FILES}


def graph() -> dict[str, set[str]]:
    edges: dict[str, set[str]] = defaultdict(set)
    for name, path in FILES:
        for module, taken in imports(path.read_text()):
            edges[name] |= {f"{module}.{word}" if f"{module}.{word}" in MODULES else module for word in taken or [""] if module in MODULES}
        edges[name].discard(name)
    return edges


GRAPH = graph()


def layer(module: str) -> int:
    """The place of a module's package in the order."""
    found = [place for place, package in enumerate(ORDER) if module == package or module.startswith(package + ".")]
    return max(found, key=lambda place: len(ORDER[place]))


def components() -> list[list[str]]:
    """Modules that reach one another (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in sorted(GRAPH.get(module, ())):
            if other not in numbers:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], numbers[other])
        if lowest[module] == numbers[module]:
            part = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(part) > 1:
                found.append(sorted(part))

    for module in sorted(MODULES):
        if module not in numbers:
            visit(module)
    return found


def test_every_package_stands_in_the_order() -> None:
    packages = {name for name in MODULES if name.count(".") == 1 and not name.endswith("__main__")}
    assert packages <= set(ORDER)
    assert {name for name in ORDER if name not in MODULES} == set(), "no longer there"


@pytest.mark.parametrize("package", ORDER)
def test_a_package_uses_only_those_below_it(package: str) -> None:
    place = ORDER.index(package)
    up = [f"{name} uses {other}" for name in sorted(MODULES) if layer(name) == place for other in sorted(GRAPH.get(name, ())) if layer(other) > place]
    assert not up, "\n".join(up)


def test_no_modules_use_one_another() -> None:
    assert components() == []


def test_only_the_registry_loads_by_name() -> None:
    loads = {
        name
        for name, path in FILES
        if layer(name) < ORDER.index("fastdns.plugins") and re.search(r"\bimportlib\.import_module\(|__import__\(", path.read_text())
    }
    assert loads <= LOADS_BY_NAME, loads - LOADS_BY_NAME


def test_native_plugins_cimport_the_api_alone() -> None:
    """And what other plugins publish in headers of theirs."""
    cimport = re.compile(r"^[ \t]*(?:from[ \t]+(fastdns[\w.]*)[ \t]+cimport|cimport[ \t]+(fastdns[\w.]*))", re.M)
    native = [(name, path) for name, path in FILES if layer(name) == ORDER.index("fastdns.plugins") and path.suffix in (".pyx", ".pxd")]
    core = [
        f"{name}: {module or whole}"
        for name, path in native
        for module, whole in cimport.findall(path.read_text())
        if not (module or whole).startswith(("fastdns.api.", "fastdns.plugins."))
    ]
    assert len(native) > 100
    assert not core, "\n".join(core)


def test_the_api_defines_nothing_of_its_own() -> None:
    for name, path in FILES:
        if name.startswith("fastdns.api.") and path.suffix == ".pxd":
            assert not re.search(r"^(cdef|ctypedef|cpdef)\b", path.read_text(), re.M), name


def test_untyped_pointers_are_contexts() -> None:
    hidden = []
    for name, path in FILES:
        if path.suffix == ".pxd":
            fields = re.findall(r"^    (?:cdef )?void \*\*?(\w+)[ \t]*(?:#.*)?$", path.read_text(), re.M)
            hidden += [f"{name}: void *{field}" for field in fields if field not in CONTEXTS and f"{name}.{field}" not in UNTYPED]
    assert not hidden, hidden


def test_folders_are_seen_at_a_glance() -> None:
    counts: dict[Path, set[str]] = defaultdict(set)
    for _, path in FILES:
        if path.stem != "__init__":
            counts[path.parent].add(path.stem)
    large = {str(folder.relative_to(ROOT)): len(modules) for folder, modules in counts.items() if len(modules) > MODULES_MAX}
    assert not large, large
