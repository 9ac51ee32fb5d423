"""Adds licences and a bill of materials (sbom.py) of what is shipped with fastdns: shared libraries, and what the module of QUIC is linked with.

python tools/licenses.py wheel WHEEL...            of what auditwheel has put into a wheel: NAME.dist-info/licenses/PACKAGE/ and NAME.dist-info/sboms/
python tools/licenses.py image FOLDER LIBRARY...   of an image's root: FOLDER/usr/share/licenses/PACKAGE/ for libraries of this system, FOLDER/usr/share/sbom/
                                                   for these, Python and its packages, and what the wheel brings
python tools/licenses.py packages FOLDER NAME      of Python's packages alone, which bring their licences: FOLDER/usr/share/sbom/NAME.cdx.json

The texts are those of the system's package that a library comes from, and those that make quic and make wheel-libraries have put together, so this
runs where the wheel was built. A library without any is an error.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import sbom

#: Texts that Debian's copyright files name without repeating them.
COMMON = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")

#: auditwheel's name of a library: a part of its checksum before the first dot, which may be one of a version (``libevent-2.1.so.7``).
BUNDLED = re.compile(r"-[0-9a-f]{8}(?=\.(?:\d+\.)*so\b)")

ROOT = Path(__file__).resolve().parent.parent
#: Of tools/quic_library.py.
QUIC = ROOT / "build/quic/licenses"
#: Of tools/wheel_libraries.py; what is not in ``lib`` there is the system's.
LIBRARIES = ROOT / "build/libraries"
#: Name of a shared library -> its folder in LIBRARIES/licenses.
OWN = {"libcrypto-fastdns.so": "openssl", "libssl-fastdns.so": "openssl", "libnghttp2.so": "nghttp2"}

FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")


def said(*command: str | Path) -> str:
    """What a command prints; nothing where it fails or is not there."""
    try:
        return subprocess.run([str(word) for word in command], text=True, capture_output=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def located(name: str) -> Path:
    """The file of a shared library by its name, such as ``libre2.so.9``."""
    known = re.findall(r"=> (\S+)", said("ldconfig", "-p") or said("/sbin/ldconfig", "-p"))
    for folder in (LIBRARIES / "lib", *FOLDERS, *sorted({str(Path(path).parent) for path in known})):
        if (path := Path(folder, name)).exists():
            return path
    raise SystemExit(f"{name} is in no folder of libraries: run this where the wheel was built")


class Owner(NamedTuple):
    """The package that a library comes from."""

    name: str
    version: str
    #: Of its package URL.
    kind: str
    #: The files with its licence.
    texts: list[Path]


def owner(library: Path) -> Owner:
    """Raises SystemExit where the system knows none."""
    if library.is_relative_to(LIBRARIES):
        name = OWN[library.name.partition(".so")[0] + ".so"]
        return Owner(name, json.loads((LIBRARIES / "versions.json").read_text())[name], "generic", sorted((LIBRARIES / "licenses" / name).iterdir()))
    paths = dict.fromkeys((library, library.resolve(), *(Path(str(path).removeprefix("/usr")) for path in (library, library.resolve()))))
    for path in paths:
        if found := said("dpkg", "-S", path):
            package = found.splitlines()[0].partition(":")[0]
            texts = [Path("/usr/share/doc", package, "copyright")]
            if texts[0].is_file():
                texts += [Path(f"/usr/share/common-licenses/{name}") for name in sorted(set(COMMON.findall(texts[0].read_text())))]
            version = said("dpkg-query", "-W", "-f", "${Version}\n", package).partition("\n")[0]
            return Owner(package, version, "deb/debian", texts)
        if found := said("rpm", "-qf", "--qf", "%{NAME} %{VERSION}-%{RELEASE}", path):
            package, version = found.split()
            return Owner(package, version, "rpm", [Path(text) for text in said("rpm", "-q", "--licensefiles", package).splitlines()])
    raise SystemExit(f"the system has no package of {library}, which is shipped")


def licences(libraries: list[Path]) -> dict[str, bytes]:
    """PACKAGE/FILE -> text, for the packages of all libraries."""
    texts: dict[str, bytes] = {}
    for library in libraries:
        package = owner(library)
        found = {f"{package.name}/{path.name}": path.read_bytes() for path in package.texts if path.is_file()}
        if not found:
            raise SystemExit(f"the system has no licence of {library}, which is shipped")
        texts |= found
    return texts


def parts(libraries: list[Path]) -> list[sbom.Part]:
    """What libraries are, for a bill of materials."""
    owners = {library.name: owner(library)[:3] for library in libraries}
    return [sbom.Part(*known, files=tuple(sorted(name for name, found in owners.items() if found == known))) for known in sorted(set(owners.values()))]


def quic_licences() -> dict[str, bytes]:
    """CRATE/FILE -> text, of all that is in the library of tools/quic_library.py."""
    if not QUIC.is_dir():
        raise SystemExit(f"the licences of QUIC are missing: {QUIC} is where make quic puts them")
    return {str(path.relative_to(QUIC)): path.read_bytes() for path in sorted(QUIC.rglob("*")) if path.is_file()}


def add_to_wheel(wheel: Path) -> list[str]:
    """Rewrite a wheel with the licences of the libraries in it and the bill of materials. The names of what is added."""
    with zipfile.ZipFile(wheel) as archive:
        content = {info: archive.read(info) for info in archive.infolist()}
    names = [info.filename for info in content]
    bundled = [name.rpartition("/")[2] for name in names if name.startswith("fastdns.libs/") and ".so" in name]
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    folder = record.removesuffix("RECORD")
    libraries = [located(BUNDLED.sub("", name)) for name in bundled]
    found, listed = licences(libraries), parts(libraries)
    if any(name.startswith("fastdns/engine/quic/library.") and name.endswith(".so") for name in names):
        found |= quic_licences()
        listed += sbom.crates(QUIC)
    texts = {f"{folder}licenses/{name}": text for name, text in found.items()}
    texts[folder + sbom.NAME] = sbom.document("fastdns", folder.removesuffix(".dist-info/").partition("-")[2], "library", listed)
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in texts.items()
        if name not in names
    ]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in content.items():
            archive.writestr(info, data + "".join(lines).encode() if info.filename == record else data, zipfile.ZIP_DEFLATED)
        for name, text in texts.items():
            if name not in names:
                archive.writestr(name, text)
    return [*texts]


def add_to_image(folder: Path, libraries: list[Path]) -> None:
    """The licences of libraries of this system, and the bill of materials, into an image's root that has Python's packages already."""
    for name, text in licences(libraries).items():
        write(folder / "usr/share/licenses" / name, text)
    (site,) = folder.rglob("site-packages")
    brought = [located(BUNDLED.sub("", path.name)) for path in sorted(site.glob("fastdns.libs/*.so*"))]
    listed = [*parts(libraries + brought), *sbom.crates(QUIC), *sbom.packages(site), sbom.Part("cpython", platform.python_version(), "generic", "PSF-2.0")]
    (version,) = (path.name.removesuffix(".dist-info").partition("-")[2] for path in site.glob("fastdns-*.dist-info"))
    write(folder / "usr/share/sbom" / Path(sbom.NAME).name, sbom.document("fastdns", version, "container", listed))


def list_packages(folder: Path, name: str) -> None:
    """The bill of materials of Python's packages in an image's root."""
    (site,) = folder.rglob("site-packages")
    (version,) = re.findall(r'^__version__ = "(.*)"$', (ROOT / "fastdns/__init__.py").read_text(), re.M)
    write(folder / f"usr/share/sbom/{name}.cdx.json", sbom.document(name, version, "container", sbom.packages(site)))


def write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["wheel", *wheels] if wheels:
            for wheel in wheels:
                print(f"{wheel}: {len(add_to_wheel(Path(wheel)))} licences and a bill of materials")
        case ["image", folder, *libraries]:
            add_to_image(Path(folder), [Path(library) for library in libraries])
        case ["packages", folder, name]:
            list_packages(Path(folder), name)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
