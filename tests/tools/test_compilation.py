"""What a build prints, and what it compiles again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="needs the source tree")

SETUP = """
import json
import os
import sys
from setuptools import Extension, setup
sys.path.insert(0, TOOLS)
import compilation

class Build(compilation.BuildExtensions):
    options = {"build_dir": "build/cython", "language_level": 3}

    @staticmethod
    def describe(package):
        (package / "features.json").write_text(compilation.compiler_version())

setup(
    name="sample",
    ext_modules=[Extension(f"fastdns.{name}", [f"{name}.pyx"], extra_compile_args=os.environ["ARGUMENTS"].split()) for name in ("first", "second")],
    packages=["fastdns"],
    cmdclass={"build_ext": Build},
)
"""
BROKEN = 'cdef extern from *:\n    """\n    static int broken(void) { return not_declared; }\n    """\n    int broken()\n\ndef f():\n    return broken()\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "setup.py").write_text(SETUP.replace("TOOLS", repr(str(ROOT / "tools"))))
    (tmp_path / "fastdns").mkdir()
    (tmp_path / "fastdns" / "__init__.py").touch()
    for name in ("first", "second"):
        (tmp_path / f"{name}.pyx").write_text("def f():\n    return 1\n")
    return tmp_path


def build(project: Path, arguments: str = "-O0") -> tuple[int, str]:
    """The status, and what is printed."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(
        command, cwd=project, env={**os.environ, "ARGUMENTS": arguments}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout


def test_one_line_and_nothing_twice(project: Path) -> None:
    assert build(project) == (0, "compiling 1/2\ncompiling 2/2\n")
    assert len(list((project / "fastdns").glob("*.so"))) == 2
    assert re.fullmatch(r"(gcc|clang) [\d.]+", (project / "fastdns" / "features.json").read_text())
    assert build(project) == (0, "")


def test_what_changed_is_compiled(project: Path) -> None:
    build(project)
    (project / "first.pyx").write_text("def f():\n    return 2\n")
    first, second = (project / "fastdns" / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in ("first", "second"))
    before = first.stat().st_mtime_ns, second.stat().st_mtime_ns
    assert build(project)[0] == 0
    assert first.stat().st_mtime_ns > before[0]
    assert second.stat().st_mtime_ns == before[1]
    assert build(project, "-O1") == (0, "compiling 1/2\ncompiling 2/2\n")


def test_an_error_is_shown_as_a_whole(project: Path) -> None:
    (project / "second.pyx").write_text(BROKEN)
    status, said = build(project)
    assert status == 1
    assert "error: ‘not_declared’ undeclared" in said or "error: 'not_declared' undeclared" in said or "undeclared identifier 'not_declared'" in said
    assert "second.c -o" in said, "the command"
    (project / "second.pyx").write_text("def f(:\n")
    assert "second.pyx:1:" in build(project)[1]
