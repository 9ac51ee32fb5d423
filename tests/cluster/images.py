"""Container images out of Debian packages, Go programs and deploy/Dockerfile, as archives for containerd. No registry of images is asked."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cluster import programs
from tools import system_packages

__all__ = ["BASELINE", "FASTDNS", "NODE", "Archive", "Images"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = programs.CACHE / "images"
#: Tagged with the version of CoreDNS that it matches, which kubeadm reads from the tag.
FASTDNS = f"fastdns.test/fastdns:{programs.COREDNS}"
NODE = f"fastdns.test/fastdns-node:{programs.COREDNS}"
BASELINE = f"registry.k8s.io/coredns/coredns:{programs.COREDNS}"
PAUSE = "registry.k8s.io/pause:3.10.1"

DEBIAN = "bookworm"
MIRROR = "http://deb.debian.org/debian"
#: Security updates are among them: with them comes the Rust that quiche needs.
SOURCES = [f"deb {MIRROR} {DEBIAN} main", f"deb {MIRROR} {DEBIAN}-updates main", f"deb {MIRROR}-security {DEBIAN}-security main"]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
#: Debian's Python looks for modules in folders called dist-packages, which deploy/root.sh does not know of; other builds of it have this one folder.
SITE = 'import os, site; site.addsitedir(os.path.join(os.path.dirname(__file__), "site-packages"))'
#: In an image without a shell: who may be named, and what may be written.
ACCOUNTS = "root:x:0:0:root:/root:/sbin/nologin\\nnobody:x:65534:65534:nobody:/:/sbin/nologin\\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\\n"


class Base:
    """The root of a Debian: a variant of mmdebstrap, packages, shell commands for it, in which ``"$1"`` is its folder, and variables of the image."""

    def __init__(self, variant: str, packages: Sequence[str], hooks: Sequence[str] = (), environment: Sequence[str] = ()) -> None:
        self.variant, self.packages, self.hooks, self.environment = variant, packages, hooks, environment

    def write(self, path: Path) -> None:
        words = ["mmdebstrap", f"--variant={self.variant}", f"--include={','.join(self.packages)}", *(f"--customize-hook={hook}" for hook in self.hooks)]
        _run([*words, "--quiet", DEBIAN, str(path), *SOURCES])

    def digest(self) -> str:
        return hashlib.sha256(repr([self.variant, self.packages, self.hooks, self.environment, SOURCES]).encode()).hexdigest()[:16]


#: This machine's, so that a build behind a proxy with a certificate of its own works inside as it does outside.
_TRUST = f'mkdir -p "$1"/etc/ssl/certs && cp {CERTIFICATES} "$1"{CERTIFICATES}'
BASES = {
    "python": Base(
        "minbase",
        ["ca-certificates", "python3", "python3-pip", "python3-venv", "python-is-python3", "python3-dev", "libcap2-bin", "binutils", "ccache",
         *(package for need in system_packages.WHEEL for package in need.debian.split())],
        ["cd \"$1\"/usr/lib/python3.* && rm EXTERNALLY-MANAGED sitecustomize.py", f"cd \"$1\"/usr/lib/python3.* && echo '{SITE}' > sitecustomize.py", _TRUST],
        ["PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "CCACHE_DIR=/src/build/ccache", "CCACHE_NOHASHDIR=1",
         "CYTHON_CACHE_DIR=/src/build/translated"],
    ),
    "runtime": Base(
        "extract",
        ["base-files", "libc6", "libgcc-s1", "libgomp1", "libssl3", "libstdc++6", "netbase", "tzdata"],
        [_TRUST, f"printf '{ACCOUNTS}' > \"$1\"/etc/passwd", 'mkdir -p -m 1777 "$1"/tmp'],
    ),
    "node": Base("minbase", ["ca-certificates"], [_TRUST]),
    "proxy": Base("minbase", ["iptables", "nftables"]),
    "tools": Base("minbase", ["bind9-dnsutils", "ca-certificates", "curl", "dnsperf", "iproute2", "netcat-openbsd", "procps", "tcpdump"]),
}  # fmt: skip


class Archive(NamedTuple):
    """An image in docker's format, its name, and the other names that it has in the cluster."""

    path: Path
    name: str
    others: tuple[str, ...]


class Images:
    """``archives`` has what builds left; ``tools`` is the name of the image with clients."""

    def __init__(self, built: Path) -> None:
        self.built = built
        self.archives: list[Archive] = []
        self.seconds: dict[str, float] = {}
        self.tools = ""
        FOLDER.mkdir(parents=True, exist_ok=True)

    def build(self) -> None:
        for name in ("pause", "agnhost", "baseline", "fastdns", "node"):
            began = time.monotonic()
            getattr(self, f"build_{name}")()
            self.seconds[name] = time.monotonic() - began
            print(f"image {name}: {self.seconds[name]:.0f} s", file=sys.stderr, flush=True)

    def base(self, name: str) -> str:
        """The name of a base image, which is made once for each recipe."""
        base = BASES[name]
        image = f"fastdns.test/base-{name}:{base.digest()}"
        if not self.exists(image):
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                root = Path(folder, "root.tar")
                base.write(root)
                lines = ["FROM scratch", "ADD root.tar /", *(f"ENV {variable}" for variable in base.environment)]
                self.bud("\n".join([*lines, ""]), {"root.tar": root}, image)
        return image

    def exists(self, image: str) -> bool:
        return bool(_buildah("images", "--quiet", "--filter", f"reference={image}").strip())

    def build_pause(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "pause")
            _run(["gcc", "-Os", "-Wall", "-static", "-DVERSION=3.10.1", "-o", str(program), str(programs.module_folder() / "build/pause/linux/pause.c")])
            self.bud('FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n', {"pause": program}, PAUSE)
        self.save(PAUSE)

    def build_agnhost(self) -> None:
        """The images of the pods of Kubernetes' tests of DNS: one, under each of their names. It has a CoreDNS for some of them, and here dnsperf too."""
        listed = subprocess.run([self.built / "e2e.test", "--list-images"], capture_output=True, text=True, check=True).stdout.split()
        names = [image for image in listed if any(f"/{name}:" in image for name in ("agnhost", "jessie-dnsutils"))]
        self.tools = max(image for image in names if "/agnhost:" in image)
        lines = [f"FROM {self.base('tools')}", "COPY agnhost coredns /", "RUN ln -s agnhost /agnhost-2 && mkdir -p /uploads"]
        files = {name: self.built / name for name in ("agnhost", "coredns")}
        self.bud("\n".join([*lines, 'ENTRYPOINT ["/agnhost"]', 'CMD ["pause"]', ""]), files, self.tools)
        self.save(self.tools, *(name for name in names if name != self.tools))

    def build_baseline(self) -> None:
        """CoreDNS as its own image has it: its program on distroless, with the capability for port 53 on the file."""
        lines = [f"FROM {self.base('python')} AS build", "COPY coredns /coredns", "RUN setcap cap_net_bind_service=+ep /coredns"]
        lines += [f"FROM {self.base('runtime')}", "COPY --from=build /coredns /coredns", "USER 65532:65532", "WORKDIR /", 'ENTRYPOINT ["/coredns"]', ""]
        self.bud("\n".join(lines), {"coredns": self.built / "coredns"}, BASELINE)
        self.save(BASELINE)

    def build_fastdns(self) -> None:
        """deploy/Dockerfile."""
        self.build_ours(FASTDNS, ("python", "runtime"))

    def build_node(self) -> None:
        """The cache on every node, with what the image above has left."""
        self.build_ours(NODE, ("python", "runtime", "node"), "--target=node")

    def build_ours(self, name: str, bases: Sequence[str], *words: str) -> None:
        """An image of deploy/Dockerfile."""
        words = (*words, *(f"--build-arg={base.upper()}_IMAGE={self.base(base)}" for base in bases))
        words += tuple(f"--volume={folder}:/src/build/{kind}" for kind, folder in kept().items())
        words += (f"--ignorefile={ROOT}/deploy/Dockerfile.dockerignore", f"--file={ROOT}/deploy/Dockerfile", f"--tag={name}")
        _buildah("bud", *BUD, *words, str(ROOT))
        self.save(name)

    def bud(self, dockerfile: str, files: Mapping[str, Path], name: str) -> None:
        """Build a Dockerfile with files beside it."""
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            for file, path in files.items():
                _link(path, Path(folder, file))
            Path(folder, "Dockerfile").write_text(dockerfile)
            _buildah("bud", *BUD, f"--tag={name}", folder)

    def save(self, name: str, *others: str) -> None:
        path = FOLDER / f"{name.rpartition('/')[2].replace(':', '-')}.archive"
        # A cluster that is under way may read the one that is there.
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            _buildah("push", "--quiet", name, f"docker-archive:{folder}/archive:{name}")
            Path(folder, "archive").rename(path)
        self.archives.append(Archive(path, name, others))


#: What the image's build compiles before fastdns: the file that is written last, and the recipe.
LIBRARIES = {
    "quic": ("libfastdns_quic.a", "tools/quic_library.py", "fastdns/engine/quic/crate"),
    "libraries": ("versions.json", "tools/wheel_libraries.py", "tools/wheel_libraries.json"),
}
BUD = ["--isolation=chroot", "--network=host", "--pull-never", "--layers", "--quiet"]


def kept() -> dict[str, Path]:
    """Folders of the build of the image that stay, by their names in ``build/`` there: caches by content, and libraries by the content of their recipes."""
    found = {name: FOLDER / name for name in ("ccache", "translated")}
    for name, (stamp, *recipe) in LIBRARIES.items():
        made = hashlib.sha256()
        for path in sorted(file for part in recipe for file in (ROOT / part, *(ROOT / part).rglob("*")) if file.is_file()):
            made.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
        found[name] = FOLDER / f"{name}-{made.hexdigest()[:16]}"
        # Their tools compare times, and the files of a new clone are new.
        if (found[name] / stamp).exists():
            (found[name] / stamp).touch()
    for folder in found.values():
        folder.mkdir(exist_ok=True)
    return found


def _link(path: Path, copy: Path) -> None:
    """Roots are large: copied only from another file system."""
    try:
        copy.hardlink_to(path)
    except OSError:
        shutil.copy(path, copy)


def _buildah(*words: str) -> str:
    # Of its own mounts it leaves one, which goes with the namespace.
    return _run(["unshare", "--mount", "buildah", f"--root={FOLDER}/storage", f"--runroot={FOLDER}/run", "--storage-driver=overlay", *words])


def _run(command: list[str]) -> str:
    """What a command of a build said; where it fails, the last of that is the message."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ... ended with status {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout
