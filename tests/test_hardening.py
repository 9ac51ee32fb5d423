"""What the compiled modules were made with, as distributions check their packages: read from the files."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from pathlib import Path

import pytest

import fastdns
import fastdns.plugins
from tests.programs import program

PACKAGE = Path(fastdns.__file__).resolve().parent
MODULES = sorted({path.resolve() for folder in (PACKAGE, *map(Path, fastdns.plugins.__path__)) for path in folder.rglob("*.so")})
FEATURES = json.loads((PACKAGE / "features.json").read_text())

pytestmark = pytest.mark.skipif(FEATURES["sanitizers"] != "none" or FEATURES["optimization"] == "-O0", reason="builds for tests are not hardened")

#: Instructions that nothing else writes: endbr64 at the target of an indirect branch, `orq $0,(%rsp)` at each page of a large frame.
MARKED, TOUCHED = bytes.fromhex("f30f1efa"), bytes.fromhex("48830c2400")


def read(path: Path, *options: str) -> str:
    return subprocess.run([program("readelf"), "-W", *options, str(path)], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def imported() -> dict[Path, set[str]]:
    """Functions that each module takes from libraries."""
    return {path: set(re.findall(r" UND (\w+)", read(path, "--dyn-syms"))) for path in MODULES}


def test_relocations_are_read_only_and_no_stack_is_executable() -> None:
    assert len(MODULES) > 150
    for path in MODULES:
        text = read(path, "-d", "-l")
        assert re.search(r"\(FLAGS_1\).*\bNOW\b", text), path
        assert "GNU_RELRO" in text, path
        assert re.search(r"GNU_STACK.* RW +0x", text), path
        assert "TEXTREL" not in text, path


def test_stacks_and_functions_of_libc_are_checked(imported: dict[Path, set[str]]) -> None:
    """Not every module has an array on its stack, or copies into one."""
    protected = [path for path, names in imported.items() if "__stack_chk_fail" in names]
    assert len(protected) > len(MODULES) // 4
    if platform.libc_ver()[0] == "glibc":  # musl has no such functions
        checked = {name for names in imported.values() for name in names if name.endswith("_chk")}
        assert {"__memcpy_chk", "__snprintf_chk"} <= checked


@pytest.mark.skipif(platform.machine() != "x86_64", reason="octets of this processor's instructions")
def test_indirect_branches_are_marked_and_large_frames_touch_each_page() -> None:
    """Branches are in the modules that not every query passes (setup.py)."""
    contents = [path.read_bytes() for path in MODULES if "quic" not in path.parts]  # with Rust's own
    assert sum(content.count(MARKED) > 8 for content in contents) > len(contents) // 4  # libc's part of every module has two
    assert any(TOUCHED in content for content in contents)
