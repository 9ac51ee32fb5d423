"""What a build needs of the system is looked for, installed or named; the list stands once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import system_packages
from tools.system_packages import BUILD, FUZZ, QUIC, SYSTEMS, TEST, WHEEL, Need, System

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="needs the source tree")

DEBIAN, FEDORA, ALPINE = SYSTEMS


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """A system without anything. What is installed, which is then there."""
    installed: list[list[str]] = []

    def install(_: System, names: list[str]) -> bool:
        installed.append(names)
        return True

    monkeypatch.setattr(system_packages, "install", install)
    monkeypatch.setattr(Need, "missing", lambda need: not installed)
    monkeypatch.setattr(system_packages, "offered", lambda need: True)
    return installed


def every(needs: list[Need], family: str) -> list[str]:
    return list(dict.fromkeys(" ".join(getattr(need, family) for need in needs).split()))


@pytest.mark.parametrize("here", SYSTEMS, ids=lambda here: here.family)
def test_root_gets_what_is_missing(bare: list[list[str]], monkeypatch: pytest.MonkeyPatch, here: System) -> None:
    monkeypatch.setattr(system_packages, "system", lambda: here)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert system_packages.ensure_build() == ""
    assert bare == [every(BUILD, here.family)]


def test_quic_has_needs_of_its_own(bare: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_packages, "system", lambda: DEBIAN)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert system_packages.ensure_build([*BUILD, *QUIC]) == ""
    assert bare == [every([*BUILD, *QUIC], "debian")]
    assert {"cargo-web", "rustc-web", "libclang-dev", "cmake"} <= set(bare[0])


@pytest.mark.parametrize("here", SYSTEMS, ids=lambda here: here.family)
def test_only_fuzzing_needs_clang(here: System) -> None:
    assert {"clang", "llvm"} <= set(every(FUZZ, here.family))
    assert not {"clang", "llvm"} & set(every([*BUILD, *QUIC, *TEST, *WHEEL], here.family))


@pytest.mark.parametrize("here", SYSTEMS, ids=lambda here: here.family)
def test_wheels_bring_their_own_libraries(here: System) -> None:
    names = set(every(WHEEL, here.family))
    assert names >= set(every(QUIC, here.family)) | {"perl", "cmake"}
    own = [need for need in BUILD if need.name.startswith(("openssl/", "nghttp2/", "re2/"))]
    assert set(every(BUILD, here.family)) - names == set(every(own, here.family))


def test_modules_of_perl_are_looked_for() -> None:
    assert Need("Data::Dumper", "perl").missing() is not bool(system_packages.program("perl"))
    assert Need("No::Such::Module", "perl").missing()


@pytest.mark.parametrize(
    ("file", "missing"), [("libclang.so", False), ("libclang.so.18", False), ("libclang-14.so.14.0.6", False), ("libclang-cpp.so.14", True), ("", True)]
)
def test_a_library_is_not_another_one_of_a_longer_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, missing: bool) -> None:
    """libclang-cpp comes with other packages than libclang, without which quiche does not compile."""
    (tmp_path / (file or "other.so")).touch()
    monkeypatch.setattr(system_packages, "library_folders", lambda: [tmp_path])
    assert Need("libclang.so", "libclang-dev").missing() is missing


@pytest.mark.parametrize("here", SYSTEMS, ids=lambda here: here.family)
def test_others_get_the_whole_line(bare: list[list[str]], monkeypatch: pytest.MonkeyPatch, here: System) -> None:
    monkeypatch.setattr(system_packages, "system", lambda: here)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert f"\n    {here.typed} {' '.join(every(BUILD, here.family))}\n" in system_packages.ensure_build()
    assert bare == []


def test_a_system_that_is_not_known_gets_names_of_debian(bare: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_packages, "system", lambda: None)
    assert f"the packages that Debian calls {' '.join(every(BUILD, 'debian'))}\n" in system_packages.ensure_build()
    assert bare == []


@pytest.mark.parametrize(("here", "user", "wanted"), [(DEBIAN, 0, True), (DEBIAN, 1000, False), (FEDORA, 0, False), (ALPINE, 0, False)])
def test_programs_of_tests_are_installed_on_debian_alone(
    bare: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: System, user: int, wanted: bool
) -> None:
    monkeypatch.setattr(system_packages, "system", lambda: here)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    system_packages.ensure_test()
    assert bare == ([every(TEST, "debian")] if wanted else [])
    assert ("skip. To run them, as root:" in capsys.readouterr().out) is not wanted


def test_the_line_of_the_readme_is_the_list() -> None:
    assert f"\napt-get install {' '.join(every(BUILD, 'debian'))}\n" in (ROOT / "README.md").read_text()


def test_the_list_stands_once() -> None:
    others = [
        ROOT / "Makefile",
        ROOT / "setup.py",
        ROOT / "pyproject.toml",
        *(ROOT / ".ci").glob("*"),
        *(ROOT / ".github").rglob("*.yml"),
        *(ROOT / "deploy").rglob("Dockerfile"),
    ]
    repeated = [
        path.name for path in others if path.is_file() and any(package in path.read_text() for package in ("libre2-dev", "libssl-dev", "libunbound-dev"))
    ]
    assert not repeated


def test_a_missing_header_ends_the_build_with_its_package(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext"], cwd=ROOT, env={**os.environ, "CC": str(compiler)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"fastdns needs RE2: re2/re2.h is missing, install {system_packages.package('re2/re2.h')}\n"


@pytest.mark.parametrize(("text", "found"), [("go version go1.26.8 linux/amd64", (1, 26)), ("  Candidate: 2:1.19~1\n", (1, 19)), ("(none)", ())])
def test_versions(text: str, found: tuple[int, ...]) -> None:
    assert system_packages.version(text) == found
