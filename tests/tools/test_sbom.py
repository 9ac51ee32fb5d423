"""The bills of materials of wheels and the image: valid, and every library that modules are linked with is in them with its version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import fastdns
import fastdns.plugins

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools/licenses.py"
PACKAGE = Path(fastdns.__file__).resolve().parent
#: Of the C compiler and the system.
BASE = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|libdl|ld-linux[\w-]*)\.so")

pytestmark = [
    pytest.mark.skipif(not TOOL.is_file() or not (ROOT / "setup.py").is_file(), reason="the source tree is not here"),
    pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="ldd shows what is preloaded"),
]


def linked() -> list[Path]:
    """Libraries that the built modules are linked with, but for those of the compiler and the system."""
    modules = [str(path) for folder in (PACKAGE, *map(Path, fastdns.plugins.__path__)) for path in folder.rglob("*.so")]
    lines = subprocess.run(["ldd", *modules], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {Path(words[2]) for words in map(str.split, lines) if "=>" in words and words[2].startswith("/")}
    return sorted(path for path in found if not BASE.match(path.name))


def check(text: str) -> dict[str, dict[str, Any]]:
    """The components by name, of a bill that CycloneDX's schema allows."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    components = {component["name"]: component for component in bill["components"]}
    assert len(components) == len(bill["components"])
    assert bill["dependencies"][0]["dependsOn"] == [component["bom-ref"] for component in bill["components"]]
    for component in components.values():
        assert component["purl"].endswith(f"@{component['version']}".replace("+", "%2B").replace(":", "%3A").replace("~", "~"))
        assert re.search(r"\d", component["version"]), component
    return components


def files(components: dict[str, dict[str, Any]]) -> set[str]:
    return {entry["value"] for component in components.values() for entry in component.get("properties", [])}


def crates() -> dict[str, str]:
    """Of the module of QUIC, by what cargo has locked."""
    lock = (ROOT / "fastdns/engine/quic/crate/Cargo.lock").read_text()
    return dict(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"', lock))


def test_a_wheel(tmp_path: Path) -> None:
    libraries = linked()
    assert any(path.name.startswith("libre2") for path in libraries)
    wheel = tmp_path / "fastdns-1.2.3-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in libraries:
            archive.write(path, f"fastdns.libs/{path.name.replace('.so', '-0123abcd.so', 1)}")
        archive.writestr("fastdns/engine/quic/library.cpython-311-x86_64-linux-gnu.so", b"")
        archive.writestr("fastdns-1.2.3.dist-info/RECORD", "")
    if not (ROOT / "build/quic/licenses").is_dir():
        pytest.skip("needs what make quic builds")
    subprocess.run([sys.executable, str(TOOL), "wheel", str(wheel)], check=True, capture_output=True)
    with zipfile.ZipFile(wheel) as archive:
        name = "fastdns-1.2.3.dist-info/sboms/fastdns.cdx.json"
        assert f"{name},sha256=" in archive.read("fastdns-1.2.3.dist-info/RECORD").decode()
        components = check(archive.read(name).decode())
    assert files(components) == {path.name for path in libraries}
    known = crates()
    assert (components["quiche"]["version"], components["quiche"]["licenses"][0]["license"]["name"]) == (known["quiche"], "BSD-2-Clause")
    assert components["boringssl"]["version"] == f"boring-sys-{known['boring-sys']}"
    for path in libraries:
        if package := subprocess.run(["dpkg", "-S", str(path.resolve())], capture_output=True, text=True, check=False).stdout.partition(":")[0]:
            version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=True).stdout
            assert components[package]["version"] == version


def test_an_image(tmp_path: Path) -> None:
    """A root with Python's packages, and the libraries of this system that are copied into it."""
    if not (ROOT / "build/quic/licenses").is_dir():
        pytest.skip("needs what make quic builds")
    site = tmp_path / "usr/lib/python3/site-packages"
    (site / "fastdns-1.2.3.dist-info").mkdir(parents=True)
    (site / "fastdns-1.2.3.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: fastdns\nVersion: 1.2.3\n")
    (site / "uvloop-9.8.7.dist-info").mkdir()
    (site / "uvloop-9.8.7.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: uvloop\nVersion: 9.8.7\nLicense: MIT License\n")
    libraries = [path for path in linked() if path.name.startswith("libre2")]
    subprocess.run([sys.executable, str(TOOL), "image", str(tmp_path), *map(str, libraries)], check=True, capture_output=True)
    components = check((tmp_path / "usr/share/sbom/fastdns.cdx.json").read_text())
    assert components["uvloop"]["purl"] == "pkg:pypi/uvloop@9.8.7"
    assert components["cpython"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert files(components) == {path.name for path in libraries}
    assert {"quiche", "boringssl"} <= set(components)
    assert "fastdns" not in components
    assert any("RE2" in path.read_text() for path in (tmp_path / "usr/share/licenses").rglob("copyright"))


def test_a_library_of_no_package_is_refused(tmp_path: Path) -> None:
    library = Path(shutil.copy(linked()[0], tmp_path / "libnobody.so.1"))
    done = subprocess.run([sys.executable, str(TOOL), "image", str(tmp_path), str(library)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "libnobody.so.1" in done.stderr
