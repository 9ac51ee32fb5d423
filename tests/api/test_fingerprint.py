"""A native plugin built against other headers than the server's is refused, and the sentence says what to rebuild."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import fastdns
from fastdns._mux import api
from tests.server import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools/api_header.py"

pytestmark = pytest.mark.skipif(not TOOL.is_file(), reason="the source tree is not here")

TINY = """
from fastdns.api.query cimport ANSWERED, Handler, NativeHandler, Query, Verdict, handler_init, query_answer

cdef Verdict answer(Handler *self, Query *q) noexcept nogil:
    query_answer(q, 0, 0x0400)
    return ANSWERED

cdef class Tiny(NativeHandler):
    def __cinit__(self, *arguments):
        handler_init(self)
        self.handler.query = answer

cdef class Careless(NativeHandler):
    def __cinit__(self, *arguments):
        self.handler.query = answer
"""

#: What another version changed: header, text, and what stands in its place.
CHANGES = {
    "enum value": ("walk/query.pxd", "ERROR_MAX = 192", "ERROR_MAX = 200"),
    "field": ("message/reply.pxd", "    uint8_t owner_length\n", "    uint8_t owner_length\n    uint8_t added\n"),
    "hook signature": ("walk/query.pxd", "(*handler_reply_func)(Handler *self, Query *q)", "(*handler_reply_func)(Handler *self, Query *q, int more)"),
    "inline body": ("walk/query.pxd", "return &q.scratch[self.scratch]", "return &q.scratch[self.scratch + 8]"),
    "header that this plugin does not use": ("expression/value.pxd", "STEPS_MAX = 200000", "STEPS_MAX = 300000"),
}


@pytest.fixture(scope="module")
def tool() -> dict[str, object]:
    return runpy.run_path(str(TOOL))


def copy_headers(folder: Path) -> None:
    for path in (ROOT / "fastdns").rglob("*"):
        if path.suffix == ".pxd" or path.name == "__init__.py":
            target = folder / "fastdns" / path.relative_to(ROOT / "fastdns")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)


def build(folder: Path, header: str = "", old: str = "", new: str = "", version: str = fastdns.__version__, option: str = "-O0") -> None:
    """The tiny plugin against headers of which one is changed, as another version of fastdns would ship them."""
    copy_headers(folder)
    if header:
        path = folder / "fastdns" / header
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    (folder / "tiny.pyx").write_text(TINY)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    python = sysconfig.get_path("include")
    for words in (
        [sys.executable, TOOL, folder, version],
        [sys.executable, "-m", "cython", "-3", "-I", folder, "tiny.pyx"],
        ["cc", "-shared", "-fPIC", option, "-w", f"-I{python}", f"-I{folder / 'fastdns'}", "tiny.c", "-o", f"tiny{suffix}"],
    ):
        done = run(*words, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(folder / "fastdns")  # what is imported is the server's


def make(folder: Path, name: str = "Tiny") -> str:
    """The handler's name, or the error with which it or its module is refused."""
    code = f"import tiny\ntry:\n    print(tiny.{name}('tiny').name)\nexcept ValueError as error:\n    print(error)"
    done = run(sys.executable, "-c", code, cwd=folder)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_one_that_fits_is_taken(tmp_path: Path) -> None:
    build(tmp_path)
    assert make(tmp_path) == "tiny"
    (tmp_path / "careless.py").write_text("import tiny\n\ndef setup(controller):\n    controller.next()\n    return tiny.Careless('careless')\n")
    (tmp_path / "Corefile").write_text(f".:{free_port()} {{\n bind 127.0.0.1\n plugin careless.py\n whoami\n}}\n")
    done = run(sys.executable, "-m", "fastdns", "-conf", "Corefile", cwd=tmp_path)
    assert done.returncode == 1
    assert "plugin/careless: tiny sets hooks and does not call handler_init" in done.stdout + done.stderr


def refused(folder: Path, change: str) -> None:
    build(folder, *CHANGES[change], version="0.9")
    version, fingerprint = api()
    wanted = (
        rf"tiny was built against fastdns 0\.9 with API fingerprint [0-9a-f]{{16}}; this is fastdns {version} with API fingerprint {fingerprint}: "
        r"rebuild it against this one"
    )
    assert re.fullmatch(wanted, make(folder)), make(folder)


def test_another_enum_value_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "enum value")


@pytest.mark.slow
@pytest.mark.parametrize("change", [change for change in CHANGES if change != "enum value"])
def test_other_changes_are_refused(tmp_path: Path, change: str) -> None:
    refused(tmp_path, change)


@pytest.mark.slow
def test_another_size_of_the_handler_is_refused_at_import(tmp_path: Path) -> None:
    """Cython itself sees it; the sentence is completed where plugins are loaded."""
    build(tmp_path, "walk/query.pxd", "    void *state\n    const char *name ", "    void *state\n    void *added\n    const char *name ")
    (tmp_path / "grown.py").write_text("import tiny\n\ndef setup(controller):\n    return tiny.Tiny('grown')\n")
    (tmp_path / "Corefile").write_text(".:53 {\n plugin grown.py\n whoami\n}\n")
    done = run(sys.executable, "-m", "fastdns", "check", "Corefile", cwd=tmp_path)
    assert done.returncode == 1
    assert "size changed, may indicate binary incompatibility" in done.stdout
    assert f"API fingerprint {api()[1]}: rebuild it against this one" in done.stdout


def test_another_layout_is_refused(tmp_path: Path) -> None:
    """The same headers, compiled with an option that gives enums another size."""
    build(tmp_path, option="-fshort-enums")
    assert "tiny was built with a compiler or options that lay out structs otherwise" in make(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ('"""One."""\ncdef enum:\n    A = 1   # first\n', '"""Two."""\n\n# more\ncdef enum:\n    A = 1\n', True),
        ("cdef enum:\n    A = 1\n", "cdef enum:\n    A = 2\n", False),
        ('cdef extern from *:\n    """\n    int a;\n    """\n', 'cdef extern from *:\n    """\n    int b;\n    """\n', False),
        ("cdef inline int f() noexcept nogil:\n    return '#'\n", "cdef inline int f() noexcept nogil:\n    return '#'  # said\n", True),
        ("cdef inline int f() noexcept nogil:\n    return '#a'\n", "cdef inline int f() noexcept nogil:\n    return '#b'\n", False),
    ],
)
def test_what_counts_as_text(tool: dict[str, object], before: str, after: str, same: bool) -> None:
    bare = tool["bare"]
    assert callable(bare)
    assert (bare(before) == bare(after)) is same


def test_the_server_was_built_from_these_headers(tool: dict[str, object]) -> None:
    fingerprint, headers = tool["fingerprint"], tool["headers"]
    assert callable(fingerprint)
    assert callable(headers)
    assert api() == (fastdns.__version__, fingerprint(ROOT))
    assert headers(ROOT).keys() >= {"fastdns.api.query", "fastdns._mux", "fastdns.walk.query", "fastdns.walk.layout", "fastdns.system.byteorder"}


def test_every_published_name_exists(tmp_path: Path) -> None:
    """cython finds each name that a header re-exports, through the header."""
    files = []
    for header in sorted((ROOT / "fastdns/api").glob("*.pxd")):
        names = re.findall(r"cimport (\([^)]*\)|[^\n]*)", re.sub(r'"""(?:.|\n)*?"""', "", header.read_text()))
        (tmp_path / f"use_{header.stem}.pyx").write_text("".join(f"from fastdns.api.{header.stem} cimport {some}\n" for some in names))
        files.append(f"use_{header.stem}.pyx")
    done = run(sys.executable, "-m", "cython", "-3", "-I", ROOT, *files, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
