"""Dockerfiles begin with the images of deploy/images.env; a release pins their digests in both."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCKERFILES = ["deploy/Dockerfile", "deploy/bench/Dockerfile"]
DIGEST = "sha256:" + "0123456789abcdef" * 4

pytestmark = pytest.mark.skipif(not (ROOT / "deploy").is_dir(), reason="the source tree is not here")


def images(root: Path) -> dict[str, str]:
    lines = (root / "deploy/images.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def defaults(root: Path) -> dict[str, str]:
    """Build arguments of all Dockerfiles; whatever they begin with is one, or an earlier stage."""
    found: dict[str, str] = {}
    for name in DOCKERFILES:
        text = (root / name).read_text()
        arguments = dict(re.findall(r"^ARG (\w+_IMAGE)=(.*)$", text, re.M))
        stages = set()
        for image, stage in re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.M):
            assert image in stages or image.strip("${}") in arguments, f"{name}: FROM {image}"
            stages.add(stage)
        found |= arguments
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("tools/base_images.py", "deploy/images.env", *DOCKERFILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def run(tree: Path, word: str, docker: str = "") -> subprocess.CompletedProcess[str]:
    programs = tree / "programs"
    programs.mkdir(exist_ok=True)
    if docker:
        (programs / "docker").write_text(f'#!/bin/sh\necho "$*" >> {tree}/asked\n{docker}\n')
        (programs / "docker").chmod(0o755)
    return subprocess.run([sys.executable, "tools/base_images.py", word], cwd=tree, env={"PATH": f"{programs}"}, capture_output=True, text=True, check=False)


def test_defaults_are_those_of_the_file() -> None:
    assert defaults(ROOT) == images(ROOT)
    for value in images(ROOT).values():
        assert re.fullmatch(r"[\w./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?", value), value


def test_pin_writes_digests_into_both(tree: Path) -> None:
    before = images(tree)
    for _ in range(2):  # a second time it looks them up again
        done = run(tree, "pin", f"echo {DIGEST}")
        assert done.returncode == 0, done.stderr
        assert images(tree) == defaults(tree) == {name: f"{value}@{DIGEST}" for name, value in before.items()}
    asked = (tree / "asked").read_text().splitlines()
    assert [line.split()[3] for line in asked] == [*before.values()] * 2


@pytest.mark.parametrize(("docker", "said"), [("", "docker"), ("echo no such image >&2; exit 1", "no such image"), ("echo latest", "gives no digest")])
def test_without_a_digest_nothing_is_written(tree: Path, docker: str, said: str) -> None:
    before = images(tree)
    done = run(tree, "pin", docker)
    assert done.returncode == 1
    assert said in done.stderr
    assert images(tree) == defaults(tree) == before


def test_write_takes_what_stands_in_the_file(tree: Path) -> None:
    (tree / "deploy/images.env").write_text((tree / "deploy/images.env").read_text().replace("slim-bookworm", "slim-trixie"))
    assert run(tree, "write").returncode == 0
    assert defaults(tree) == images(tree)
    assert run(tree, "other").returncode == 1


def test_the_release_pins_before_it_builds() -> None:
    workflow = (ROOT / ".github/workflows/image.yml").read_text()
    assert 0 < workflow.index("base_images.py pin") < workflow.index("docker build")
