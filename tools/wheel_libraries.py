"""Builds OpenSSL and nghttp2, which wheels and the image bring: shared libraries in build/libraries, which setup.py links with where they are there.

Versions and SHA-256 digests of the upstream releases are in tools/wheel_libraries.json. An archive that is in build/libraries/sources already is not
downloaded. Names of files and versions of symbols are private, so that none is bound to another OpenSSL of the process, such as that of Python's module ssl.
Nothing is done where the libraries are newer than their recipe. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tools/wheel_libraries.json"
BUILT = ROOT / "build/libraries"
SOURCES = BUILT / "sources"
WORK = BUILT / "work"
STAMP = BUILT / "versions.json"

#: Seconds without an octet of a download.
TIMEOUT = 60
ATTEMPTS = 3

#: A part of the names of OpenSSL's files, and in capitals of its symbols' versions: libssl-fastdns.so.3, OPENSSL_FASTDNS_3.0.0.
VARIANT = "-fastdns"
#: OpenSSL's name of a platform, by machine.
PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch64"}
#: What no server uses stays out, and what loads code at run time.
OPENSSL_OPTIONS = (
    "shared", "no-apps", "no-cms", "no-comp", "no-docs", "no-dtls", "no-engine", "no-legacy", "no-module", "no-quic", "no-srp", "no-ssl3", "no-tests", "no-ts",
)  # fmt: skip
#: Below it OpenSSL looks for openssl.cnf, certificates and modules: a folder that root alone can make, and nobody does. A distribution's own configuration
#: may not suit this version (OPENSSL_CONF names one that does), and fastdns/tls/stores.py looks up certificates.
PREFIX = "/usr/lib/fastdns"


class Source(NamedTuple):
    """A release of a library."""

    name: str
    version: str
    url: str
    sha256: str
    #: The file with it, in the archive.
    license: str

    @property
    def archive(self) -> Path:
        return SOURCES / self.url.rpartition("/")[2]


def pins() -> dict[str, Source]:
    """The releases to build, by name."""
    read = json.loads(PINS.read_text())
    return {name: Source(name, pin["version"], pin["url"].format(version=pin["version"]), pin["sha256"], pin["license"]) for name, pin in read.items()}


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(url: str, path: Path) -> None:
    """Raises OSError when the last attempt fails."""
    for attempt in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, path.open("wb") as file:  # noqa: S310 - https, from the file of pins
                shutil.copyfileobj(answer, file)
        except OSError:
            if attempt == ATTEMPTS - 1:
                raise
        else:
            return


def unpack(source: Source) -> Path:
    """The folder of a release, from an archive with the right digest; another ends the program."""
    archive = source.archive
    if not archive.is_file():
        SOURCES.mkdir(parents=True, exist_ok=True)
        part = archive.with_name(archive.name + ".part")
        try:
            download(source.url, part)
        except OSError as error:
            sys.exit(f"{source.url}: {error}")
        part.replace(archive)
    if (found := digest(archive)) != source.sha256:
        sys.exit(f"{archive} has the SHA-256 digest {found}, not {source.sha256} as in {PINS.name}")
    folder = WORK / source.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # the digest is right; early releases of Python 3.11 have none
        files.extractall(folder)  # noqa: S202
    (top,) = folder.iterdir()
    return top


def run(log: Path, folder: Path, *command: str, **environment: str) -> None:
    """Run a command of a build; where it fails, what it said last ends the program."""
    with log.open("a") as said:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environment}, stdout=said, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{log.read_text(errors='replace')[-4000:]}\n{' '.join(command)} failed with status {done.returncode}; all it said is in {log}")


def build_openssl(folder: Path, log: Path, target: Path, jobs: str) -> None:
    """Configured as a platform of its own, which is what a variant of names needs."""
    machine = platform.machine()
    if machine not in PLATFORMS:
        sys.exit(f"OpenSSL's name for {machine} is not known to {Path(__file__).name}")
    configurations = WORK / "configurations"
    configurations.mkdir(exist_ok=True)
    (configurations / "10-fastdns.conf").write_text(
        f'my %targets = ("fastdns" => {{ inherit_from => [ "{PLATFORMS[machine]}" ], shlib_variant => "{VARIANT}" }});\n'
    )
    options = [*OPENSSL_OPTIONS, f"--prefix={PREFIX}", "--libdir=lib", f"--openssldir={PREFIX}/ssl"]
    run(log, folder, "perl", "Configure", "fastdns", *options, OPENSSL_LOCAL_CONFIG_DIR=str(configurations))
    run(log, folder, "make", "-s", f"-j{jobs}", "build_generated")
    # The shared libraries alone, which make install does not know of: for the static ones all would be compiled a second time.
    run(log, folder, "make", "-s", f"-j{jobs}", "libcrypto.so", "libssl.so")
    shutil.copytree(folder / "include/openssl", target / "include/openssl", ignore=shutil.ignore_patterns("*.in"))
    (target / "lib").mkdir()
    for name in ("libcrypto", "libssl"):
        shutil.copyfile(folder / f"{name}{VARIANT}.so.3", target / f"lib/{name}{VARIANT}.so.3")
        (target / f"lib/{name}.so").symlink_to(f"{name}{VARIANT}.so.3")


def build_nghttp2(folder: Path, log: Path, target: Path, jobs: str) -> None:
    """The library alone."""
    options = ["CMAKE_BUILD_TYPE=Release", f"CMAKE_INSTALL_PREFIX={target}", "CMAKE_INSTALL_LIBDIR=lib", "CMAKE_SHARED_LINKER_FLAGS=-Wl,-Bsymbolic"]
    options += ["ENABLE_LIB_ONLY=ON", "BUILD_SHARED_LIBS=ON", "BUILD_STATIC_LIBS=OFF", "BUILD_TESTING=OFF", "ENABLE_DOC=OFF"]
    run(log, folder, "cmake", "-S", ".", "-B", "build", *(f"-D{option}" for option in options))
    run(log, folder, "cmake", "--build", "build", "--parallel", jobs)
    run(log, folder, "cmake", "--install", "build")


BUILDERS = {"openssl": build_openssl, "nghttp2": build_nghttp2}


def is_current() -> bool:
    return STAMP.is_file() and all(STAMP.stat().st_mtime >= path.stat().st_mtime for path in (PINS, Path(__file__)))


def main() -> None:
    if is_current():
        return
    STAMP.unlink(missing_ok=True)
    for folder in ("include", "lib", "licenses", "work"):
        shutil.rmtree(BUILT / folder, ignore_errors=True)
    jobs = str(len(os.sched_getaffinity(0)))
    found = pins()
    for name, source in found.items():
        print(f"building {name} {source.version}, which takes minutes" if name == "openssl" else f"building {name} {source.version}", flush=True)
        folder = unpack(source)
        log = BUILT / f"{name}.log"
        log.unlink(missing_ok=True)
        BUILDERS[name](folder, log, BUILT, jobs)
        licences = BUILT / "licenses" / name
        licences.mkdir(parents=True)
        shutil.copyfile(folder / source.license, licences / source.license)
    shutil.rmtree(WORK)
    STAMP.write_text(json.dumps({name: source.version for name, source in found.items()}) + "\n")


if __name__ == "__main__":
    main()
