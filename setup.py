"""Builds the native modules: every ``.pyx`` under ``fastdns/``, ``plugins/*/`` and ``bench/``.

Environment switches (each keeps its own C files and objects, so that builds do not mix):

``FASTDNS_DEBUG=1``       no optimisation, assertions, bounds checks, counters of live memory (fastdns/system/debug.pyi)
``FASTDNS_SANITIZE=LIST`` gcc's ``-fsanitize=LIST``, for example ``address,undefined``
``FASTDNS_COVERAGE=1``    gcov counters
``CYTHON_CACHE_DIR=PATH`` C files are taken from there where every source they were made of is the same, in whatever folder it lies
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # everything below is relative, so that nothing of this machine enters the C files

#: Import name of a top folder -> where it lies. Folders below follow by themselves.
TREES = {"fastdns": "fastdns", "fastdns.plugins": "plugins", "fastdns.bench": "bench"}

DEBUG = os.environ.get("FASTDNS_DEBUG", "") not in ("", "0")
SANITIZE = os.environ.get("FASTDNS_SANITIZE", "")
COVERAGE = os.environ.get("FASTDNS_COVERAGE", "") not in ("", "0")
VARIANT = "-".join(["debug"] * DEBUG + ["sanitize-" + SANITIZE.replace(",", "-")] * bool(SANITIZE) + ["coverage"] * COVERAGE) or "release"

#: Where fastdns/plugins and fastdns/bench exist as folders (see link_tree).
LINKED = Path("build/tree")
GENERATED = Path("build/cython") / VARIANT

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
    "binding": True,
    "warn.undeclared": False,
}


#: Modules over a library: name -> (language, header, libraries, the header's package in Debian).
OVER = {"fastdns.expression.matcher": ("c++", "re2/re2.h", ["re2"], "libre2-dev"), "fastdns.system.digest": ("c", "openssl/params.h", ["crypto"], "libssl-dev")}


def compile_args(cplusplus: bool = False) -> list[str]:
    args = ["-std=gnu++17" if cplusplus else "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-pthread", "-fstack-protector-strong"]
    args += [
        "-Wno-unused-function",
        "-Wno-unused-variable",
        "-Wno-unused-but-set-variable",
        "-Wno-sign-compare",
        "-Wno-unused-result",
    ]
    if not cplusplus:
        args += ["-Werror=implicit-function-declaration"]
    if DEBUG or SANITIZE:
        args += ["-O1" if SANITIZE else "-O0", "-g", "-fno-omit-frame-pointer", "-U_FORTIFY_SOURCE"]
    else:
        args += ["-O3", "-g0", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    if DEBUG:
        args += ["-UNDEBUG"]
        if not SANITIZE and not cplusplus:  # the sanitizers watch memory by themselves
            args += ["-include", "fastdns/debug.h"]
    if SANITIZE:
        args += [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"]
    if COVERAGE:
        args += ["--coverage"]
    return args


def link_args() -> list[str]:
    args = ["-pthread", "-Wl,-z,relro,-z,now"]
    if SANITIZE:
        args += [f"-fsanitize={SANITIZE}"]
    if COVERAGE:
        args += ["--coverage"]
    return args


def link_tree() -> None:
    """Keep ``build/tree``, where folders and import names agree.

    cython and mypy find modules by folder: without it ``plugins/cache/_cache.pxd`` is ignored without a
    word, because there is no folder ``fastdns/plugins``.
    """
    inside = LINKED / "fastdns"
    inside.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for path in Path("fastdns").iterdir() if path.name != "__pycache__"}
    wanted |= {name.partition(".")[2]: Path(where) for name, where in TREES.items() if "." in name and Path(where).is_dir()}
    for link in inside.iterdir():
        if link.name not in wanted or not link.exists():
            link.unlink()
    for name, target in wanted.items():
        link = inside / name
        if not link.is_symlink():
            link.symlink_to(Path("../../..") / target)


def link_order() -> None:
    """Have ``plugin.cfg`` in the package too: a link in a source tree, which an sdist turns into a file."""
    inside = Path("fastdns/plugin.cfg")
    if not inside.exists():
        inside.unlink(missing_ok=True)
        inside.symlink_to("../plugin.cfg")


def walk(where: str) -> list[Path]:
    """Every folder of a tree that belongs to the package, in a steady order."""
    top = Path(where)
    if not top.is_dir():
        return []
    below = (Path(folder) for folder, _, _ in os.walk(top))
    return sorted(path for path in below if not any(part.startswith((".", "__pycache__")) for part in path.parts))


def dotted(path: Path, tree: str) -> str:
    """plugins/cache/_cache.pyx, fastdns.plugins -> fastdns.plugins.cache._cache"""
    return ".".join([tree, *(part.removesuffix(".pyx") for part in path.relative_to(TREES[tree]).parts)])


def packages() -> list[str]:
    return [dotted(folder, tree) for tree, where in TREES.items() for folder in walk(where) if (folder / "__init__.py").is_file()]


def sources() -> dict[str, Path]:
    found = {}
    for tree, where in TREES.items():
        for folder in walk(where):
            for path in sorted(folder.glob("*.pyx")):
                found[dotted(path, tree)] = path
    return found


def has_header(language: str, header: str) -> bool:
    """Whether a compiler of the language is there and finds the header."""
    command = os.environ.get("CXX", "c++") if language == "c++" else os.environ.get("CC", "cc")
    compiler = [*shlex.split(command), "-x", language, "-fsyntax-only", "-"]
    try:
        return subprocess.run(compiler, input=f"#include <{header}>\n", text=True, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def extensions() -> list[Extension]:
    link_tree()
    found = sources()
    for name, (language, header, _, package) in OVER.items():
        if name in found and not has_header(language, header):
            raise SystemExit(f"fastdns needs <{header}>: install {package} (Debian's name) and a {language.upper()} compiler")
    if not found:
        return []
    from Cython.Build import cythonize  # kept here: no .pyx, no cython

    headers = sorted(str(path) for path in Path("fastdns").glob("*.h"))
    wanted = [
        Extension(
            name,
            [str(path)],
            include_dirs=["fastdns", str(path.parent)],
            depends=headers,
            define_macros=[("_GNU_SOURCE", "1")],
            language=OVER[name][0] if name in OVER else "c",
            libraries=OVER[name][2] if name in OVER else [],
            extra_compile_args=compile_args(name in OVER and OVER[name][0] == "c++"),
            extra_link_args=link_args(),
        )
        for name, path in found.items()
    ]
    return cythonize(
        wanted,
        include_path=[".", str(LINKED)],
        build_dir=str(GENERATED),
        compiler_directives=DIRECTIVES,
        nthreads=2,
        cache=os.environ.get("CYTHON_CACHE_DIR") or False,
        force=changed(),
        show_all_warnings=False,
    )


def changed() -> bool:
    """Whether the C files come from another build recipe; cython itself looks only at the sources."""
    import Cython

    stamp = GENERATED / "recipe"
    recipe = f"{Cython.__version__} {sorted(DIRECTIVES.items())}"
    if stamp.is_file() and stamp.read_text() == recipe:
        return False
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir(parents=True)
    stamp.write_text(recipe)
    return True


class build(build_ext):  # noqa: N801 - distutils names commands in lower case
    """build_ext with two jobs and objects apart for each variant."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or 2
        if VARIANT != "release":
            self.build_temp = f"{self.build_temp}-{VARIANT}"


def scripts() -> list[str]:
    found = ["fastdns = fastdns.server.cli:main", "fastdns-node = fastdns.node.cli:main"]
    if Path("bench/cli.py").is_file():
        found.append("fastdns-bench = fastdns.bench.cli:main")
    return found


SHIPPED = ["py.typed", "*.pyi", "*.pxd", "*.h", "plugin.cfg", "README.md", "*.json", "*.yaml", "Corefile", "*.bpf"]

link_order()
setup(
    packages=packages(),
    package_dir=TREES,
    package_data={"": SHIPPED, "fastdns": ["sample/**"]},
    exclude_package_data={"": ["*.c", "*.cpp", "*.pyx"]},
    include_package_data=False,
    ext_modules=extensions(),
    entry_points={"console_scripts": scripts()},
    cmdclass={"build_ext": build},
    zip_safe=False,
)
