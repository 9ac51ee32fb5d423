"""Adds the licences of libraries that are shipped with fastdns: shared ones, and what the module of QUIC is linked with.

python tools/licenses.py wheel WHEEL...             those that auditwheel has put into a wheel: NAME.dist-info/licenses/PACKAGE/
python tools/licenses.py folder FOLDER LIBRARY...   those of libraries of this system: FOLDER/PACKAGE/

The texts are those of the system's package that a library comes from, and those that make quic and make wheel-libraries have put together, so this
runs where the wheel was built. A library without any is an error.
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

#: Texts that Debian's copyright files name without repeating them.
COMMON = re.compile(r"/usr/share/common-licenses/([\w.+-]*\w)")

#: auditwheel's name of a library: a part of its checksum before the suffix.
BUNDLED = re.compile(r"-[0-9a-f]{8}(?=\.so\b)")

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


def owner(library: Path) -> tuple[str, list[Path]]:
    """The package of a library, and the files with its licence."""
    if library.is_relative_to(LIBRARIES):
        name = OWN[library.name.partition(".so")[0] + ".so"]
        return name, sorted((LIBRARIES / "licenses" / name).iterdir())
    paths = dict.fromkeys((library, library.resolve(), *(Path(str(path).removeprefix("/usr")) for path in (library, library.resolve()))))
    for path in paths:
        if found := said("dpkg", "-S", path):
            package = found.splitlines()[0].partition(":")[0]
            texts = [Path("/usr/share/doc", package, "copyright")]
            if texts[0].is_file():
                texts += [Path(f"/usr/share/common-licenses/{name}") for name in sorted(set(COMMON.findall(texts[0].read_text())))]
            return package, texts
        if found := said("rpm", "-qf", "--qf", "%{NAME}", path):
            return found, [Path(text) for text in said("rpm", "-q", "--licensefiles", found).splitlines()]
    return "", []


def licences(libraries: list[Path]) -> dict[str, bytes]:
    """PACKAGE/FILE -> text, for the packages of all libraries."""
    texts: dict[str, bytes] = {}
    for library in libraries:
        package, files = owner(library)
        found = {f"{package}/{path.name}": path.read_bytes() for path in files if path.is_file()}
        if not found:
            raise SystemExit(f"the system has no licence of {library}, which is shipped")
        texts |= found
    return texts


def quic_licences() -> dict[str, bytes]:
    """CRATE/FILE -> text, of all that is in the library of tools/quic_library.py."""
    if not QUIC.is_dir():
        raise SystemExit(f"the licences of QUIC are missing: {QUIC} is where make quic puts them")
    return {str(path.relative_to(QUIC)): path.read_bytes() for path in sorted(QUIC.rglob("*")) if path.is_file()}


def add_to_wheel(wheel: Path) -> list[str]:
    """Rewrite a wheel with the licences of the libraries in it. Their names."""
    with zipfile.ZipFile(wheel) as archive:
        content = {info: archive.read(info) for info in archive.infolist()}
    names = [info.filename for info in content]
    bundled = [name.rpartition("/")[2] for name in names if name.startswith("fastdns.libs/") and ".so" in name]
    record = next(name for name in names if name.endswith(".dist-info/RECORD"))
    folder = record.removesuffix("RECORD") + "licenses/"
    found = licences([located(BUNDLED.sub("", name)) for name in bundled])
    if any(name.startswith("fastdns/engine/quic/library.") and name.endswith(".so") for name in names):
        found |= quic_licences()
    texts = {folder + name: text for name, text in found.items()}
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


def main(arguments: list[str]) -> None:
    match arguments:
        case ["wheel", *wheels] if wheels:
            for wheel in wheels:
                print(f"{wheel}: {len(add_to_wheel(Path(wheel)))} licences")
        case ["folder", folder, *libraries]:
            for name, text in licences([Path(library) for library in libraries]).items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
