"""Builds quiche and BoringSSL, which DNS over QUIC and over HTTP/3 are written over: a static library in build/quic, for the module that setup.py links.

Cargo does it, by fastdns/engine/quic/crate/Cargo.lock, with a few statements of quiche changed in a copy: see EDITS.
Beside the library: headers, versions for `fastdns -version`, and the licences of all that is in it.
Nothing is done where the library is newer than the crate. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CRATE = ROOT / "fastdns/engine/quic/crate"
BUILT = ROOT / "build/quic"
ARCHIVE = BUILT / "libfastdns_quic.a"

#: Where BoringSSL lies in the crate that builds it.
BORINGSSL = "deps/boringssl"
#: What is built: the crate, with quiche in a folder of it.
PATCHED = BUILT / "crate"
#: File of quiche, a pattern that occurs in it once, and what replaces it.
EDITS = (
    # quiche puts one STREAM frame into a packet, unless it is fuzzed. Replies of DNS are short and end at the same time: each would be encrypted, sent,
    # received and acknowledged for itself. Where little room is left, a reply begins a packet.
    (
        "src/lib.rs",
        r'#\[cfg\(feature = "fuzzing"\)\]\s*// Coalesce STREAM frames when fuzzing\.\s*if left > frame::MAX_STREAM_OVERHEAD \{',
        "if left > 128 {",
    ),
    # A server of quiche keeps the paths that a client has left, and takes no other once they are as many as there may be: a client behind a NAT that forgets
    # would hear nothing any more. The path that was left first makes room. They have their places one after the other.
    (
        "src/path.rs",
        r"let \(pid_to_remove, _\) = self\s*\.paths\s*\.iter\(\)\s*\.find\(\|\(_, p\)\| p\.unused\(\)\)\s*\.ok_or\(Error::Done\)\?;",
        """let count = self.max_concurrent_paths;
        let active = self.get_active_path_id().unwrap_or(0);
        let (pid_to_remove, _) = self
            .paths
            .iter()
            .filter(|(_, p)| !p.active())
            .min_by_key(|(pid, p)| (!p.unused(), (pid + count - active) % count))
            .ok_or(Error::Done)?;""",
    ),
    # Of what a server may send to an address that is not validated quiche subtracts packets, but not the octets that a datagram is padded with. A first
    # flight that is sent again and again would be more than three times what came (RFC 9000 8.1).
    (
        "src/lib.rs",
        r"done \+= pad_len;",
        """done += pad_len;
            let padded = self.paths.get_mut(send_pid)?;
            padded.max_send_bytes = padded.max_send_bytes.saturating_sub(pad_len);""",
    ),
)


def cargo(*arguments: str, crate: Path = CRATE, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["cargo", *arguments, "--locked", "--manifest-path", str(crate / "Cargo.toml")], text=True, check=True, **options)


def packages() -> dict[str, dict[str, Any]]:
    """The crates that are in the library, by name; those that only build it are not."""
    listed = cargo("tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", stdout=subprocess.PIPE).stdout
    linked = {(line.split()[0], line.split()[1].removeprefix("v")) for line in listed.splitlines() if line}
    known = json.loads(cargo("metadata", "--format-version", "1", stdout=subprocess.PIPE).stdout)["packages"]
    return {package["name"]: package for package in known if (package["name"], package["version"]) in linked and package["source"]}


def is_licence(path: Path) -> bool:
    return path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))


def copy_licences(found: dict[str, dict[str, Any]]) -> None:
    folder = BUILT / "licenses"
    shutil.rmtree(folder, ignore_errors=True)
    for name, package in found.items():
        source = Path(package["manifest_path"]).parent
        texts = [path for path in sorted(source.iterdir()) if is_licence(path)]
        if name == "boring-sys":
            texts += [source / BORINGSSL / "LICENSE"]
        target = folder / name
        target.mkdir(parents=True)
        (target / "Cargo.license").write_text(f"{name} {package['version']}: {package['license']}\n")
        for text in texts:
            shutil.copyfile(text, target / ("BoringSSL-LICENSE" if BORINGSSL in str(text) else text.name))


def edit(source: Path) -> None:
    """Makes EDITS in a copy of quiche's sources. Exits where one has no place."""
    for name, pattern, replacement in EDITS:
        text, count = re.subn(pattern, replacement, (source / name).read_text())
        if count != 1:
            sys.exit(f"quiche cannot be changed: {name} has {count} places for it, not 1 (EDITS of {Path(__file__).name})")
        (source / name).write_text(text)


def unlock(lock: str, name: str) -> str:
    """Text of a Cargo.lock in which the crate is taken from a folder, for `[patch]`: without where it comes from, and its checksum."""
    return re.sub(rf'(\[\[package\]\]\nname = "{name}"\nversion = "[^"]*"\n)source = "[^"]*"\nchecksum = "[^"]*"\n', r"\1", lock)


def write_patched(quiche: Path) -> None:
    """PATCHED, of the crate and of quiche as cargo has unpacked it: cargo has compared it with the checksum in Cargo.lock."""
    shutil.rmtree(PATCHED, ignore_errors=True)
    shutil.copytree(CRATE, PATCHED)
    shutil.copytree(quiche, PATCHED / "quiche")
    edit(PATCHED / "quiche")
    with (PATCHED / "Cargo.toml").open("a") as manifest:
        manifest.write('\n[patch.crates-io]\nquiche = { path = "quiche" }\n')
    (PATCHED / "Cargo.lock").write_text(unlock((CRATE / "Cargo.lock").read_text(), "quiche"))


def is_current() -> bool:
    sources = [CRATE / "Cargo.toml", CRATE / "Cargo.lock", *(CRATE / "src").iterdir(), Path(__file__)]
    return ARCHIVE.is_file() and all(ARCHIVE.stat().st_mtime >= source.stat().st_mtime for source in sources)


def main() -> None:
    if is_current():
        return
    BUILT.mkdir(parents=True, exist_ok=True)
    print("building quiche and BoringSSL, which takes minutes", flush=True)
    with (BUILT / "cargo.log").open("w") as log:
        try:
            cargo("fetch", stdout=log, stderr=subprocess.STDOUT)
            found = packages()
            write_patched(Path(found["quiche"]["manifest_path"]).parent)
            cargo("build", "--release", "--target-dir", str(BUILT / "target"), crate=PATCHED, stdout=log, stderr=subprocess.STDOUT)
        except subprocess.CalledProcessError:
            sys.exit(f"{(BUILT / 'cargo.log').read_text()[-4000:]}\ncargo failed; all it said is in {BUILT / 'cargo.log'}")
    headers = BUILT / "include"
    shutil.rmtree(headers, ignore_errors=True)
    shutil.copytree(Path(found["boring-sys"]["manifest_path"]).parent / BORINGSSL / "include", headers)
    shutil.copyfile(Path(found["quiche"]["manifest_path"]).parent / "include/quiche.h", headers / "quiche.h")
    copy_licences(found)
    versions = {"quiche": found["quiche"]["version"], "BoringSSL": f"of boring-sys {found['boring-sys']['version']}"}
    (BUILT / "versions.json").write_text(json.dumps(versions) + "\n")
    made = BUILT / "libfastdns_quic.a.new"
    shutil.copyfile(BUILT / "target/release/libfastdns_quic.a", made)
    os.replace(made, ARCHIVE)


if __name__ == "__main__":
    main()
