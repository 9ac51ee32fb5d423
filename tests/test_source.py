"""Rules about the source itself that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("fastdns", "plugins", "bench", "tests", "tools", "deploy", "docs")
SECTIONS = ("Name", "Description", "Syntax", "Examples", "Metrics")
#: Lines of a file a reader still gets through; about 300 is the aim.
LINES = 700

pytestmark = pytest.mark.skipif(not (ROOT / "plugin.cfg").is_file(), reason="the source tree is not here")


def files(*suffixes: str) -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and path.is_file()]
    return sorted(path for path in found if not path.is_symlink() and "__pycache__" not in path.parts)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def uncommented(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines of Cython with their numbers: without comments and strings, brackets closed."""
    text = re.sub(r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'', lambda quoted: "\n" * quoted[0].count("\n"), text)
    whole, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', '""', line)
        bare = bare.partition("#")[0].rstrip()
        first = first or number
        whole = f"{whole} {bare.strip()}" if whole else bare
        if whole.count("(") <= whole.count(")") and not whole.endswith("\\"):
            yield first, whole
            whole, first = "", 0


def declared_nogil(text: str) -> Iterator[tuple[int, str]]:
    """Function headers and function types that end in nogil, outside ``cdef extern`` blocks (C raises nothing)."""
    extern = -1
    for number, line in uncommented(text):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if extern >= 0 and indent > extern:
            continue
        extern = indent if re.match(r"\s*cdef extern\b", line) else -1
        if extern < 0 and re.search(r"\)[^()]*\bnogil\s*:?$", line):
            yield number, line.strip()


GOOD = re.compile(r"\b(noexcept|except\??\s*-?\s*[\w.]+)\s+nogil\s*:?$")


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("cdef int f(int a) noexcept nogil:", True),
        ("cdef int f(int a) except? -1 nogil:", True),
        ("cdef int f(int a) except -1 nogil", True),
        ("ctypedef int (*f)(int a) noexcept nogil", True),
        ("cdef int f(int a) except * nogil:", False),
        ("cdef int f(int a) nogil:", False),
        ("cdef int f(int a,\n           int b) nogil:  # noexcept nogil", False),
        ('cdef int f(int a) nogil: """noexcept nogil:"""', False),
    ],
)
def test_the_rule_about_nogil(line: str, good: bool) -> None:
    found = list(declared_nogil(line))
    assert len(found) == 1
    assert bool(GOOD.search(found[0][1])) is good


@pytest.mark.parametrize("path", files(".pyx", ".pxd"), ids=name)
def test_nogil_functions_never_take_the_gil_to_look_for_an_error(path: Path) -> None:
    bad = [f"{number}: {line}" for number, line in declared_nogil(path.read_text()) if not GOOD.search(line)]
    assert not bad, "end them in 'noexcept nogil' or 'except? -1 nogil': " + "; ".join(bad)


#: Where code without the GIL takes it: all on the control side, where a query never comes by.
TAKES_THE_GIL = {
    "fastdns/index/conflicts.pyx": "what a zone has beside what it may have, while it is loaded",
    "fastdns/zonefile/parser.pyx": "records of a zone file as Python objects, for tools and tests",
    "plugins/kubernetes/decode/stream.pyx": "a warning about an object of the API server that is left out",
    "plugins/kubernetes/decode/taker.pyx": "objects of declared kinds, for informers in Python",
}


def test_no_query_waits_for_the_gil() -> None:
    """Threads that answer queries were made without Python: what they call takes the GIL nowhere but in these modules."""
    found = set()
    for path in files(".pyx", ".pxd"):
        if ROOT / "tests" in path.parents:
            continue
        if any(re.search(r"\bwith gil\b|\bPyGILState_Ensure\b", line) for _, line in uncommented(path.read_text())):
            found.add(name(path))
    assert found == TAKES_THE_GIL.keys()


@pytest.mark.parametrize("path", files(".pyx", ".pxd"), ids=name)
def test_compiler_directives_stand_in_setup_py_only(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"^#\s*cython:", text, re.M)
    assert not re.search(r"^\s*@cython\.(boundscheck|wraparound|cdivision|initializedcheck)", text, re.M)
    assert not re.search(r"^include\b", text, re.M), "share by cimport"


@pytest.mark.parametrize("path", files(".pyx"), ids=name)
def test_extensions_that_export_to_python_have_a_stub(path: Path) -> None:
    if re.search(r"^(def|cpdef|class|cdef class|async def) ", path.read_text(), re.M):
        assert path.with_suffix(".pyi").is_file(), f"{name(path)} wants a .pyi beside it"


@pytest.mark.parametrize("path", files(".pyi"), ids=name)
def test_stubs_have_their_extension(path: Path) -> None:
    assert path.with_suffix(".pyx").is_file()
    ast.parse(path.read_text())


CODE = [path for path in files(".py", ".pyx", ".pxd", ".pyi", ".h", ".c") if path != Path(__file__).resolve()]


@pytest.mark.parametrize("path", CODE, ids=name)
def test_files_are_finished_and_short(path: Path) -> None:
    text = path.read_text()
    left = re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b|NotImplementedError", text)
    assert not left, f"left for later: {left}"
    if not path.name.startswith("z_"):
        assert text.count("\n") <= LINES, "split it by subject"


#: Files of the root and its hidden folders, which FOLDERS leaves out.
TOP = sorted(path for pattern in ("*.md", "*.toml", "*.py", "*.in", "Makefile", ".ci/*", ".github/workflows/*") for path in ROOT.glob(pattern))
TEXT = [*CODE, *TOP, *files(".md", ".yaml", ".yml", ".json", ".cfg", ".sh", ".go")]


@pytest.mark.parametrize("path", TEXT, ids=name)
def test_no_path_of_a_machine_stands_in_the_tree(path: Path) -> None:
    found = re.search(r"/(?:(?:home|root)/\w+/|work/\w)", path.read_text())
    assert not found, found


@pytest.mark.parametrize("path", TEXT, ids=name)
def test_nothing_beside_the_tree_is_read(path: Path) -> None:
    found = re.search(r"\.\./shared\b|FASTDNS_SHARED|ROOT\.parent\b", path.read_text())
    assert not found, found


#: What tests and the load generator need and an installed server does without.
NOT_IMPORTED = re.compile(
    r"""^\s*(?:import|from|cimport)\s+(?:kubernetes|prometheus_client)\b|\b(?:import_module|__import__)\(\s*["'](?:kubernetes|prometheus_client)\b""", re.M
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import kubernetes", True),
        ("def f():\n    from kubernetes.client import Configuration", True),
        ("    import prometheus_client as client", True),
        ('importlib.import_module("kubernetes.config")', True),
        ("from fastdns.plugins.kubernetes import cluster", False),
        ('sys.modules.get("prometheus_client")', False),
        ("import kubernetes_like", False),
    ],
)
def test_the_rule_about_imports(text: str, found: bool) -> None:
    assert bool(NOT_IMPORTED.search(text)) is found


def test_the_server_imports_no_package_that_only_tests_need() -> None:
    folders = (ROOT / "fastdns", ROOT / "plugins")
    read = [path for path in files(".py", ".pyx", ".pxd") if any(map(path.is_relative_to, folders))]
    assert ROOT / "plugins" / "kubernetes" / "watch" / "kubeconfig.py" in read
    assert [name(path) for path in read if NOT_IMPORTED.search(path.read_text())] == []


def test_generated_files_begin_with_z() -> None:
    for path in CODE:
        head = path.read_text()[:600]
        made = re.search(r"[Gg]enerated by (tools/\w+\.py)", head)
        assert bool(made) == path.name.startswith("z_"), f"{name(path)}: 'Generated by tools/….py' and z_ go together"
        if made:
            assert (ROOT / made[1]).is_file(), f"{name(path)}: {made[1]} is not there"


PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/__init__.py"))


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_plugins_are_listed_and_described(folder: Path) -> None:
    listed = re.findall(r"^\w+:(\w+)$", (ROOT / "plugin.cfg").read_text(), re.M)
    assert folder.name in listed, "plugin.cfg does not list it"
    headings = re.findall(r"^## (.+?)\s*$", (folder / "README.md").read_text(), re.M)
    assert [heading for heading in headings if heading in SECTIONS] == list(SECTIONS)


def test_every_directive_stands_once() -> None:
    names = re.findall(r"^(\w+):\w+$", (ROOT / "plugin.cfg").read_text(), re.M)
    assert len(names) == len(set(names))
    assert len(names) >= 60


def test_package_data_is_the_root_files() -> None:
    assert (ROOT / "fastdns" / "plugin.cfg").read_bytes() == (ROOT / "plugin.cfg").read_bytes()
    for page in ("differences.md", "coredns-1.15.md"):
        assert (ROOT / "fastdns" / "migrate" / page).read_bytes() == (ROOT / "docs" / page).read_bytes()


def test_atomic_operations_stand_in_one_file() -> None:
    others = [name(path) for path in files(".pyx", ".pxd", ".h") if re.search(r"__(atomic|sync)_\w+\(", path.read_text())]
    # The counters of debug builds are C that every module of such a build begins with.
    assert others == ["fastdns/debug.h", "fastdns/system/atomic.pxd", "fastdns/system/debug.pxd"]
