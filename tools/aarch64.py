"""Compiles everything for aarch64 by Debian's cross compiler, and runs tests in QEMU's emulator: python tools/aarch64.py [PYTEST'S ARGUMENTS]

In build/aarch64: `root`, a Debian for that processor with the same Python as ours, of which headers, libraries and the interpreter are taken; `packages`,
what the tests import; `lib`, the modules. The first two are made once. QUIC is left out: quiche is not compiled for aarch64 here.

The emulator translates to instructions of this processor, whose memory order it keeps. On x86-64 it shows that the code compiles, is aligned and passes,
and nothing of its order.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
HERE = TREE / "build/aarch64"
ROOT, PACKAGES, LIB = HERE / "root", HERE / "packages", HERE / "lib"

#: The release of Debian in the root, its Python, which ours has to be, and packages.
SUITE, VERSION = "bookworm", (3, 11)
DEBIAN = ("python3", "libpython3-dev", "libc6-dev", "libstdc++-12-dev", "libssl-dev", "libnghttp2-dev", "libre2-dev")
PYTHON = ROOT / "usr/bin" / f"python{VERSION[0]}.{VERSION[1]}"
#: Requirements that the tests below have beside those of the server.
TESTED_WITH = ("pytest", "cryptography")
#: What is run: parsers and packets, atomics and what stands on them, and a server that is asked over UDP and TCP.
TESTS = ("tests/wire", "tests/system/test_mailbox.py", "tests/system/test_epoch.py", "tests/index/test_index.py", "tests/plugins/whoami")


def run(*command: object, **environment: str) -> int:
    return subprocess.run([str(part) for part in command], cwd=TREE, env=os.environ | environment, check=False).returncode


def make_root() -> None:
    """A root without its packages' scripts, which only that processor could run."""
    if PYTHON.is_file():
        return
    made = HERE / "root.made"
    shutil.rmtree(made, ignore_errors=True)
    if run("mmdebstrap", "--quiet", "--architectures=arm64", "--variant=extract", f"--include={','.join(DEBIAN)}", SUITE, made):
        raise SystemExit("no root for aarch64")
    shutil.rmtree(ROOT, ignore_errors=True)
    made.rename(ROOT)


def make_packages() -> None:
    """Wheels of that processor, by pip."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    tested = [text for text in project["optional-dependencies"]["test"] if text.startswith(TESTED_WITH)]
    wanted = "\n".join([*project["dependencies"], *tested])
    stamp = PACKAGES / "requirements.txt"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    shutil.rmtree(PACKAGES, ignore_errors=True)
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 28, 34)]
    options = [
        "--only-binary=:all:",
        "--no-compile",
        f"--python-version={VERSION[0]}.{VERSION[1]}",
        "--implementation=cp",
        *platforms,
        "--platform=manylinux2014_aarch64",
    ]
    if run(sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--target", PACKAGES, *options, *wanted.splitlines()):
        raise SystemExit("no packages for aarch64")
    stamp.write_text(wanted)


def compile_all() -> None:
    """By setup.py under our own Python, which is told that it is the root's."""
    described = "_sysconfigdata__aarch64-linux-gnu.py"
    (HERE / "python").mkdir(exist_ok=True)
    shutil.copy(ROOT / "usr/lib" / PYTHON.name / described, HERE / "python")
    flags = f"--sysroot={shlex.quote(str(ROOT))} -I{shlex.quote(str(PYTHON.parent.parent / 'include' / PYTHON.name))}"
    environment = {
        "CC": f"aarch64-linux-gnu-gcc {flags}",
        "CXX": f"aarch64-linux-gnu-g++ {flags}",
        "PYTHONPATH": str(HERE / "python"),
        "_PYTHON_SYSCONFIGDATA_NAME": described.removesuffix(".py"),
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "FASTDNS_QUIC": str(HERE / "quic"),
        "FASTDNS_LIBRARIES": str(HERE / "libraries"),
    }
    if run(sys.executable, "setup.py", "-q", "build", "--build-lib", LIB, **environment):
        raise SystemExit("it does not compile for aarch64")


def main(arguments: list[str]) -> int:
    if sys.version_info[:2] != VERSION:
        raise SystemExit(f"{SUITE} has Python {VERSION[0]}.{VERSION[1]}, this is {sys.version.split()[0]}")
    HERE.mkdir(parents=True, exist_ok=True)
    make_root()
    make_packages()
    compile_all()
    python = ["qemu-aarch64-static", "-L", str(ROOT), str(PYTHON)]
    environment = {"PYTHONPATH": f"{LIB}:{PACKAGES}", "FASTDNS_BIN": shlex.join([*python, "-P", "-m", "fastdns"])}
    options = ["-o", f"pythonpath={LIB} .", "-o", "timeout=600", "-p", "no:cacheprovider", "-m", "not slow and not memory and not timing"]
    return run(*python, "-m", "pytest", "-q", *options, *(arguments or TESTS), **environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
