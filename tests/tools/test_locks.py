"""tools/locks: what wheels, the image and the site are made with, by digest, is what pyproject.toml asks for; everything uses it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
LOCKS = ROOT / "tools/locks"

pytestmark = pytest.mark.skipif(not (ROOT / "deploy").is_dir(), reason="the source tree is not here")


def locked(part: str) -> dict[str, str]:
    """Name -> version. Every line of the file is a package with its digests, or a comment."""
    text = (LOCKS / f"{part}.txt").read_text()
    entry = r"([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
    assert re.fullmatch(rf"(?:#.*\n|\n|{entry})*", text)
    return {canonicalize_name(name): version for name, version, _ in re.findall(entry, text)}


@pytest.mark.parametrize("part", ["release", "serve", "clouds", "site"])
def test_all_that_is_wanted_is_locked(part: str) -> None:
    versions = locked(part)
    wanted = subprocess.run([sys.executable, "tools/requirements.py", part], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    requirements = [Requirement(line) for line in wanted if line]
    assert requirements
    for requirement in requirements:
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement


def test_the_site_is_made_with_it() -> None:
    workflow = (ROOT / ".github/workflows/site.yml").read_text()
    assert re.findall(r"pip install (.*)", workflow) == ["--require-hashes -r tools/locks/site.txt"]


def test_the_image_and_wheels_are_made_with_it() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    installs = re.findall(r"pip install ([^\\\n]*)", dockerfile)
    assert len(installs) == 3
    assert "--require-hashes" in (ROOT / "deploy/clouds.sh").read_text()
    for options in installs:
        assert re.search(r"--require-hashes -r tools/locks/(release|serve)\.txt", options) or "--no-deps /wheelhouse/*.whl" in options, options
    assert "--no-isolation" in dockerfile
    project = (ROOT / "pyproject.toml").read_text()
    assert 'before-build = "pip install --require-hashes -r {project}/tools/locks/release.txt"' in project
    assert 'args = ["--no-isolation"]' in project
