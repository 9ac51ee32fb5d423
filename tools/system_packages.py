"""What the system must have for a build and for the tests, looked for before either: the only list of it.

python3 tools/system_packages.py build    what compiling needs; status 1 if something is missing and cannot be installed
python3 tools/system_packages.py quic     that, and what make quic needs
python3 tools/system_packages.py wheel    what released wheels need: that, but for the libraries of make wheel-libraries, and what those need
python3 tools/system_packages.py fuzz     what compiling needs, and clang with libFuzzer for make fuzz
python3 tools/system_packages.py aarch64  what make aarch64 needs; Debian alone has it
python3 tools/system_packages.py cluster  what make cluster needs; Debian alone has it
python3 tools/system_packages.py test     what make quic and single plugins need, and the programs that tests start; tests that need one which is missing skip

As root on Debian, Fedora, Alpine and what derives from them, missing packages are installed and named. Tests' programs are
installed on Debian alone. Any other user gets the line to type. Needs nothing but Python's standard library.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PYTHON_OLDEST = (3, 11)

#: Programs of which an older one does not count, and how they tell: Go's first that fetches by itself the version that a module asks for, quiche's Rust.
OLDEST = {"go": ((1, 21), "version"), "cargo": ((1, 88), "--version")}

#: Where daemons and the plugins of CNI lie, which an ordinary user's PATH may lack.
SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/lib/cni"


class Need(NamedTuple):
    """Something a build or a test needs. A package may be several, with spaces; empty: part of the system's base."""

    #: A program, a header with its suffix ``.h``, a shared library with its suffix ``.so``, a module of Perl with ``::``, or one of Python.
    name: str
    debian: str
    fedora: str = ""
    alpine: str = ""

    def missing(self) -> bool:
        kinds: dict[str, Callable[[str], object]] = {".h": has_header, ".so": has_library}
        other = has_module if self.name in MODULES else has_perl_module if "::" in self.name else program
        kind = kinds.get(Path(self.name).suffix, other)
        return not kind(self.name)


#: The part of Python that distributions may leave out.
MODULES = ("ensurepip",)

BUILD = [
    Need("make", "make", "make", "make"),
    Need("gcc", "gcc libc6-dev", "gcc", "gcc musl-dev"),
    Need("g++", "g++", "gcc-c++", "g++"),
    Need("Python.h", "python3-dev", "python3-devel", "python3-dev"),
    Need("ensurepip", "python3-venv", "python3-libs", "python3"),
    Need("re2/re2.h", "libre2-dev", "re2-devel", "re2-dev"),
    Need("openssl/params.h", "libssl-dev", "openssl-devel", "openssl-dev"),
    Need("nghttp2/nghttp2.h", "libnghttp2-dev", "libnghttp2-devel", "nghttp2-dev"),
]

#: Of quiche and BoringSSL. Debian 12 has current Rust for its browsers, under names of its own; rustup's does too.
QUIC = [
    Need("cmake", "cmake", "cmake", "cmake"),
    Need("cargo", "cargo-web rustc-web", "cargo rust", "cargo rust"),
    Need("libclang.so", "libclang-dev", "clang-devel", "clang-dev"),
    Need("git", "git", "git", "git"),
]

#: Of plugins that a build without it leaves out: *unbound*.
OPTIONAL = [Need("unbound-event.h", "libunbound-dev", "unbound-devel", "unbound-dev")]

#: Of the libraries that wheels bring. Fedora has each of Perl's own modules in a package, and all in one more.
LIBRARIES = [
    Need("cmake", "cmake", "cmake", "cmake"),
    *(Need(module, "perl", "perl", "perl") for module in ("Data::Dumper", "File::Compare", "IPC::Cmd", "Time::Piece")),
    Need("linux/types.h", "linux-libc-dev", "kernel-headers", "linux-headers"),
]

TEST = [
    Need("git", "git", "git", "git"),
    Need("openssl", "openssl", "openssl", "openssl"),
    Need("valgrind", "valgrind", "valgrind", "valgrind"),
    Need("ip", "iproute2", "iproute", "iproute2"),
    Need("iptables", "iptables", "iptables-nft", "iptables"),
    Need("ip6tables", "iptables", "iptables-nft", "iptables"),
    Need("nft", "nftables", "nftables", "nftables"),
    Need("delv", "bind9-dnsutils", "bind-utils", "bind-tools"),
    Need("dnstap-read", "bind9-dnsutils", "bind-utils", "bind-tools"),
    Need("named", "bind9", "bind", "bind"),
    Need("kdig", "knot-dnsutils", "knot-utils", "knot-utils"),
    Need("knotd", "knot", "knot", "knot"),
    Need("nsd", "nsd", "nsd", "nsd"),
    Need("unbound", "unbound", "unbound", "unbound"),
    Need("ldns-signzone", "ldnsutils", "ldns-utils", "ldns-tools"),
    Need("ldns-verify-zone", "ldnsutils", "ldns-utils", "ldns-tools"),
    Need("curl", "curl", "curl", "curl"),
    Need("dnsperf", "dnsperf", "dnsperf", "dnsperf"),
    Need("h2load", "nghttp2-client", "nghttp2", "nghttp2"),
    Need("nghttpd", "nghttp2-server", "nghttp2", "nghttp2"),
    Need("haproxy", "haproxy", "haproxy", "haproxy"),
    Need("dnsdist", "dnsdist", "dnsdist", "dnsdist"),
    Need("go", "golang-go", "golang", "go"),
    Need("promtool", "prometheus", "golang-github-prometheus", "prometheus"),
    Need("readelf", "binutils", "binutils", "binutils"),
    Need("systemd-analyze", "systemd", "systemd"),
    Need("systemd-socket-activate", "systemd", "systemd"),
    Need("tmux", "tmux", "tmux", "tmux"),
    Need("chromium", "chromium", "chromium", "chromium"),
    Need("chromedriver", "chromium-driver", "chromedriver", "chromium-chromedriver"),
    Need("mkfs.btrfs", "btrfs-progs", "btrfs-progs", "btrfs-progs"),
    Need("setpriv", "util-linux", "util-linux", "setpriv"),
    Need("tshark", "tshark", "wireshark-cli", "tshark"),
]

#: Of coverage-guided fuzzing: the compiler with its sanitizers and libFuzzer, and what names the lines of their reports.
FUZZ = [
    Need("clang", "clang libclang-rt-dev", "clang compiler-rt", "clang compiler-rt"),
    Need("llvm-symbolizer", "llvm", "llvm", "llvm"),
]

#: Of a build for aarch64 and its tests (tools/aarch64.py).
AARCH64 = [
    *BUILD,
    Need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    Need("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    Need("qemu-aarch64-static", "qemu-user-static"),
    Need("mmdebstrap", "mmdebstrap"),
]

#: Of a Kubernetes cluster on this machine (tests/cluster): what nodes start, and what images are built with.
CLUSTER = [
    *(need for need in BUILD if need.name == "gcc"),
    Need("containerd", "containerd"),
    Need("runc", "runc"),
    Need("host-local", "containernetworking-plugins"),
    Need("nft", "nftables"),
    Need("iptables", "iptables"),
    Need("ip", "iproute2"),
    Need("buildah", "buildah"),
    Need("mmdebstrap", "mmdebstrap"),
    Need("setcap", "libcap2-bin"),
    Need("go", "golang-go"),
]

#: Of released wheels and the image.
WHEEL = [*(need for need in BUILD if need.name not in ("openssl/params.h", "nghttp2/nghttp2.h", "re2/re2.h")), *QUIC, *LIBRARIES]


class System(NamedTuple):
    """A family of distributions: ``family`` is a field of :class:`Need`."""

    family: str
    #: What stands for it in ID and ID_LIKE of os-release(5).
    names: tuple[str, ...]
    commands: tuple[str, ...]
    #: The line for a user to type, before the packages.
    typed: str


#: A machine that has just been started may be installing updates by itself, which is waited for.
APT_INSTALL = "apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends"

SYSTEMS = [
    System("debian", ("debian", "ubuntu"), ("apt-get -qq update", APT_INSTALL), "apt-get install"),
    System("fedora", ("fedora", "rhel", "centos"), ("dnf -q -y install",), "dnf install"),
    System("alpine", ("alpine",), ("apk add -q --no-cache",), "apk add"),
]


def program(name: str) -> str | None:
    """The path of a program, found in the folders of daemons and Go's usual one too. One that is too old does not count."""
    path = shutil.which(name) or shutil.which(name, path=f"{SBIN}:/usr/local/go/bin")
    if path and name in OLDEST:
        oldest, word = OLDEST[name]
        if version(subprocess.run([path, word], text=True, capture_output=True, check=False).stdout) < oldest:
            return None
    return path


def version(text: str) -> tuple[int, ...]:
    """The first version that a text names: ``go version go1.26.8 linux/amd64`` -> (1, 26)."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()


def offered(need: Need) -> bool:
    """Whether Debian has it in a version that does."""
    if need.name not in OLDEST:
        return True
    policy = subprocess.run(["apt-cache", "policy", need.debian.split()[0]], text=True, capture_output=True, check=False).stdout
    return version(policy.partition("Candidate:")[2]) >= OLDEST[need.name][0]


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def has_perl_module(name: str) -> bool:
    return bool(program("perl")) and subprocess.run(["perl", f"-M{name}", "-e", "1"], capture_output=True, check=False).returncode == 0


def has_library(name: str) -> bool:
    """Whether a library lies where distributions put those of LLVM, its version before or after the suffix: libclang-14.so, but not libclang-cpp.so."""
    stem = name.removesuffix(".so")
    return any(next(folder.glob(f"{stem}{version}.so*"), None) for folder in library_folders() for version in ("", "-[0-9]*"))


def library_folders() -> list[Path]:
    return [folder for top in (Path("/usr/lib"), Path("/usr/lib64")) for folder in (top, *top.glob("llvm*/lib*"), *top.glob("*-linux-gnu"))]


def has_header(name: str) -> bool:
    """Whether the C compiler finds a header; without a compiler, whether it lies where distributions put headers."""
    if name == "Python.h":
        return Path(sysconfig.get_path("include"), name).is_file()
    compiler = shlex.split(os.environ.get("CC", "cc"))
    text = f"#if !__has_include(<{name}>)\n#error\n#endif\n"
    try:
        return subprocess.run([*compiler, "-E", "-xc", "-"], input=text, text=True, capture_output=True, check=False).returncode == 0
    except OSError:
        return any((Path(folder) / name).is_file() for folder in ("/usr/include", "/usr/local/include"))


@functools.cache
def system() -> System | None:
    """The distribution's family, None for one that is not known."""
    fields = {}
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        if os.path.isfile(path):
            lines = Path(path).read_text().splitlines()
            fields = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
            break
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    return next((known for name in names for known in SYSTEMS if name in known.names), None)


def packages(needs: list[Need]) -> list[str]:
    """Their packages here, each once, in order; in Debian's names on a system that is not known."""
    family = (system() or SYSTEMS[0]).family
    return list(dict.fromkeys(package for need in needs for package in getattr(need, family).split()))


def package(name: str) -> str:
    """The package of a header or a program here."""
    return " ".join(packages([need for need in (*BUILD, *QUIC, *OPTIONAL, *LIBRARIES, *AARCH64, *TEST) if need.name == name]))


@contextmanager
def no_daemons(here: System) -> Iterator[None]:
    """Keep Debian from starting the servers that it installs, by its own means: /usr/sbin/policy-rc.d."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = here.family == "debian" and not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def install(here: System, names: list[str]) -> bool:
    """Install packages as root. Where one cannot be had, False, and what the package manager says is shown."""
    print(f"installing what is missing: {' '.join(names)}", flush=True)
    *before, last = here.commands
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with no_daemons(here):
        for command in [*map(shlex.split, before), [*shlex.split(last), *names]]:
            done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                print(f"{shlex.join(command)}\n{done.stdout}", flush=True)
                return False
    return True


def line(names: list[str]) -> str:
    """What a user types to install packages."""
    here = system()
    return f"{here.typed} {' '.join(names)}" if here else f"the packages that Debian calls {' '.join(names)}"


def ensure_build(needs: list[Need] = BUILD) -> str:
    """Have all that compiling needs. Returns why that cannot be, or an empty text; what single plugins need may be missing."""
    if sys.version_info < PYTHON_OLDEST:
        return f"fastdns needs Python {'.'.join(map(str, PYTHON_OLDEST))} or later, {sys.executable} is {sys.version.split()[0]}."
    missing = [need for need in needs if need.missing()]
    here = system()
    if missing and here and os.geteuid() == 0 and install(here, packages(missing)):
        importlib.invalidate_caches()
        missing = [need for need in missing if need.missing()]
    missing = [need for need in missing if need not in OPTIONAL]
    if not missing:
        return ""
    names = ", ".join(need.name for need in missing)
    return f"The build needs what this machine does not have: {names}. As root:\n\n    {line(packages(missing))}\n"


def ensure_test() -> None:
    """Have the programs of the tests, as far as that can be."""
    missing = [need for need in TEST if need.missing()]
    here = system()
    if missing and here and here.family == "debian" and os.geteuid() == 0:
        if wanted := packages([need for need in missing if offered(need)]):
            install(here, wanted)
        missing = [need for need in missing if need.missing()]
    if missing:
        print(f"Tests that need {', '.join(need.name for need in missing)} skip. To run them, as root:\n\n    {line(packages(missing))}\n")


def main(arguments: list[str]) -> int:
    needs = {
        "build": BUILD,
        "quic": [*BUILD, *QUIC],
        "wheel": WHEEL,
        "fuzz": [*BUILD, *FUZZ],
        "aarch64": AARCH64,
        "cluster": CLUSTER,
        "test": [*BUILD, *QUIC, *OPTIONAL],
    }
    if len(arguments) != 1 or arguments[0] not in needs:
        print(__doc__)
        return 2
    if failed := ensure_build(needs[arguments[0]]):
        print(failed, file=sys.stderr)
        return 1
    if arguments == ["test"]:
        ensure_test()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
