"""Bills of materials in CycloneDX 1.6 (JSON): what wheels and the image have of others, each with its version and licence.

A wheel's is in it as NAME.dist-info/sboms/fastdns.cdx.json (PEP 770), the image's is /usr/share/sbom/fastdns.cdx.json. tools/licenses.py finds
out what there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

#: Its name in a wheel, below the folder of metadata.
NAME = "sboms/fastdns.cdx.json"


class Part(NamedTuple):
    """A library or package of others."""

    name: str
    version: str
    #: The type of its package URL: where the name is of.
    kind: str
    #: As the package says it; empty: a text beside it does.
    license: str = ""
    #: What it is there as: names of files.
    files: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Its package URL (purl)."""
        return f"pkg:{self.kind}/{quote(self.name.lower() if self.kind == 'pypi' else self.name)}@{quote(self.version)}"


def component(part: Part) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "library", "bom-ref": part.url, "name": part.name, "version": part.version, "purl": part.url}
    if part.license:
        found["licenses"] = [{"license": {"name": part.license}}]
    if part.files:
        found["properties"] = [{"name": "fastdns:file", "value": file} for file in part.files]
    return found


def document(name: str, version: str, kind: str, parts: Iterable[Part]) -> bytes:
    """The bill of a wheel (kind ``library``) or of the image (``container``). The same parts give the same octets."""
    top = f"pkg:pypi/{name}@{version}" if kind == "library" else f"pkg:oci/{name}@{version}"
    ordered = {part.url: component(part) for part in sorted(set(parts))}
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": kind, "bom-ref": top, "name": name, "version": version, "purl": top}},
        "components": [*ordered.values()],
        "dependencies": [{"ref": top, "dependsOn": [*ordered]}, *({"ref": url} for url in ordered)],
    }
    return json.dumps(bill, indent=1).encode() + b"\n"


def crates(licenses: Path) -> list[Part]:
    """What is in the library of QUIC, by the texts that tools/quic_library.py has put together."""
    parts = []
    for path in sorted(licenses.glob("*/Cargo.license")):
        named, _, license_ = path.read_text().strip().partition(": ")
        name, _, version = named.rpartition(" ")
        parts.append(Part(name, version, "cargo", license_))
        if (path.parent / "BoringSSL-LICENSE").is_file():
            parts.append(Part("boringssl", f"{name}-{version}", "generic"))
    return parts


def packages(folder: Path) -> list[Part]:
    """Python's packages in a folder, but for fastdns itself."""
    found = (distribution for distribution in metadata.distributions(path=[str(folder)]) if distribution.metadata["Name"] != "fastdns")
    return [
        Part(each.metadata["Name"], each.version, "pypi", each.metadata.get("License-Expression") or (each.metadata.get("License") or "").partition("\n")[0])
        for each in found
    ]
