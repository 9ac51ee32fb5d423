"""Builds the native modules: every ``.pyx`` under ``fastdns/``, ``plugins/*/`` and ``bench/``. ``tools/compilation.py`` runs the compilers.

Environment switches (each keeps its own C files and objects, so that builds do not mix):

``FASTDNS_DEBUG=1``       no optimisation, assertions, bounds checks, counters of live memory (fastdns/system/debug.pyi)
``FASTDNS_SANITIZE=LIST`` the compiler's ``-fsanitize=LIST``, for example ``address,undefined``
``FASTDNS_COVERAGE=1``    gcov counters
``FASTDNS_COMPILE=WHAT``  ``sample``: what serves the sample cluster, the plugins that its Corefile names (``make run``); ``nothing``: for commands
                          and metadata of what is compiled in place; ``fuzz``: only what fuzz targets are for (``FUZZED``), and these; for clang
                          (``make fuzz-build``)
``FASTDNS_QUIC=PATH``     what ``make quic`` has made, where it is not in build/quic
``FASTDNS_LIBRARIES=PATH`` what ``make wheel-libraries`` has made, where it is not in build/libraries
``CYTHON_CACHE_DIR=PATH`` C files are taken from there where every source they were made of is the same, in whatever folder it lies
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)  # everything below is relative, so that nothing of this machine enters the C files
sys.path.insert(0, str(ROOT / "tools"))

import compilation  # noqa: E402
import system_packages  # noqa: E402

#: Import name of a top folder -> where it lies. Folders below follow by themselves.
TREES = {"fastdns": "fastdns", "fastdns.plugins": "plugins", "fastdns.bench": "bench"}

#: The trees whose modules are compiled. All belong to the package.
COMPILE = os.environ.get("FASTDNS_COMPILE", "")
COMPILED = {"": [*TREES], "sample": ["fastdns", "fastdns.plugins"], "fuzz": ["fastdns", "fastdns.plugins"], "nothing": []}[COMPILE]

#: Modules and packages that read what others send, which the targets of ``make fuzz`` are for.
FUZZED = (
    "fastdns._wire",
    "fastdns.engine.http",
    "fastdns.engine.io.connection",
    "fastdns.engine.io.framing",
    "fastdns.index",
    "fastdns.message",
    "fastdns.plugins.filter_aaaa._strip",
    "fastdns.plugins.forward.transport.http1",
    "fastdns.plugins.kubernetes.decode",
    "fastdns.plugins.secondary._receive",
    "fastdns.proxy.header",
    "fastdns.proxy.tlvs",
    "fastdns.walk.finish",
    "fastdns.zonefile",
)
#: The Corefile of ``make run``.
SAMPLE = Path("fastdns/sample/Corefile")
TARGETS = ("tests.native._streams", "tests.native._targets", "tests.native._zone_targets")

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
    "auto_pickle": False,  # methods that only raise: no object of a native class is pickled
    "emit_code_comments": DEBUG or COVERAGE,
    "warn.undeclared": False,
}

#: The module with what Cython would else write into every one: its types of functions, generators and errors.
SHARED = "fastdns._cyutility"


class Library(NamedTuple):
    """A library that modules are linked with. ``tools/system_packages.py`` knows the package of its header."""

    name: str
    language: str
    header: str
    #: One name, or several with spaces.
    link: str
    #: The macro with its version; empty: the header has none, and the name of the file that is linked stands for it.
    macro: str = ""


RE2 = Library("RE2", "c++", "re2/re2.h", "re2")
CRYPTO = Library("OpenSSL", "c", "openssl/params.h", "crypto", "OPENSSL_VERSION_TEXT")
SSL = Library("OpenSSL", "c", "openssl/ssl.h", "ssl crypto", "OPENSSL_VERSION_TEXT")
NGHTTP2 = Library("nghttp2", "c", "nghttp2/nghttp2.h", "nghttp2", "NGHTTP2_VERSION")
UNBOUND = Library("libunbound", "c", "unbound-event.h", "unbound")

#: Libraries of one plugin each, which a build without them leaves out.
OPTIONAL = {UNBOUND: "fastdns.plugins.unbound"}

#: The module that is linked with the static library of ``make quic``, and where that lies; a build without it has no QUIC.
QUIC = "fastdns.engine.quic.library"
QUIC_LIBRARY = Path(os.environ.get("FASTDNS_QUIC", "build/quic"))

#: OpenSSL and nghttp2 of tools/wheel_libraries.py, in place of the system's where they are there.
LIBRARIES = Path(os.environ.get("FASTDNS_LIBRARIES", "build/libraries")).resolve()
OWN = [SSL, CRYPTO, NGHTTP2] if (LIBRARIES / "versions.json").is_file() else []

#: Module -> the library it is written over.
OVER = {
    "fastdns.expression.matcher": RE2,
    "fastdns.engine.http.session": NGHTTP2,
    "fastdns.system.digest": CRYPTO,
    "fastdns.tls.blocking": SSL,
    "fastdns.tls.client": SSL,
    "fastdns.tls.context": SSL,
    "fastdns.tls.record": SSL,
    "fastdns.tls.tickets": SSL,
    "fastdns.plugins.dnssec._private_key": CRYPTO,
    "fastdns.plugins.forward.transport.http2": NGHTTP2,
    "fastdns.plugins.unbound._resolver": UNBOUND,
}

#: Optimisation by package; elsewhere -O2. -O3 takes a fifth longer to compile than -O2: it is for what most queries pass.
LEVELS = {
    "fastdns._mux": "-O3",
    "fastdns._wire": "-O3",
    "fastdns.engine.io": "-O3",
    "fastdns.engine.loop": "-O3",
    "fastdns.engine.timer": "-O3",
    "fastdns.index": "-O3",
    "fastdns.message": "-O3",
    "fastdns.protocol": "-O3",
    "fastdns.protocol.rrtypes": "-O1",
    "fastdns.system": "-O3",
    "fastdns.walk": "-O3",
    "fastdns.plugins.acl": "-O3",
    "fastdns.plugins.cache": "-O3",
    "fastdns.plugins.file": "-O3",
    "fastdns.plugins.forward": "-O3",
    "fastdns.plugins.kubernetes": "-O3",
    "fastdns.plugins.kubernetes.decode": "-O2",
    "fastdns.plugins.kubernetes.watch": "-O2",
    "fastdns.plugins.prometheus": "-O3",
    "fastdns.plugins.rewrite": "-O3",
    SHARED: "-O1",
    "fastdns.corefile": "-O1",
    "fastdns.engine.chains": "-O1",
    "fastdns.engine.engine": "-O1",
    "fastdns.engine.handshake": "-O1",
    "fastdns.engine.listener": "-O1",
    "fastdns.engine.quic.handover": "-O1",
    "fastdns.engine.quic.listener": "-O1",
    "fastdns.engine.service": "-O1",
    "fastdns.executor": "-O1",
    "fastdns.expression.dates": "-O1",
    "fastdns.httpd": "-O1",
    "fastdns.index.conflicts": "-O1",
    "fastdns.node": "-O1",
    "fastdns.proxy.policy": "-O1",
    "fastdns.server": "-O1",
    "fastdns.system.debug": "-O1",
    "fastdns.telemetry.metrics": "-O1",
    "fastdns.tls.blocking": "-O1",
    "fastdns.tls.client": "-O1",
    "fastdns.tls.context": "-O1",
    "fastdns.plugins.auto": "-O1",
    "fastdns.plugins.dnssec._private_key": "-O1",
    "fastdns.plugins.chaos": "-O1",
    "fastdns.plugins.erratic": "-O1",
    "fastdns.plugins.kubernetes._cluster": "-O1",
    "fastdns.plugins.kubernetes.store": "-O2",
    "fastdns.plugins.secondary": "-O1",
    "fastdns.plugins.transfer": "-O1",
}


#: What distributions compile their packages with, beside stack protectors (gcc before 12 takes FORTIFY_SOURCE 3 for 2).
HARDENING = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
#: The same, but not for what most queries pass: large stack frames touch each page, so that none jumps over a guard page, which takes up to 70 instructions
#: of an answer; where processors have it, returns and targets of indirect branches are marked, which Linux does not enforce for programs.
STACKS = ["-fstack-clash-protection"]
BRANCHES = {"x86_64": ["-fcf-protection"], "aarch64": ["-mbranch-protection=standard"]}


def level(name: str) -> str:
    """-O of a module."""
    while name not in LEVELS and "." in name:
        name = name.rpartition(".")[0]
    return LEVELS.get(name, "-O2")


def compile_args(cplusplus: bool, optimisation: str) -> list[str]:
    args = ["-std=gnu++17" if cplusplus else "-std=gnu11", "-fvisibility=hidden", "-fno-strict-aliasing", "-pthread", "-fstack-protector-strong"]
    args += [
        "-Wno-unused-function",
        "-Wno-unused-variable",
        "-Wno-unused-but-set-variable",
        "-Wno-sign-compare",
        "-Wno-unused-result",
    ]
    if not cplusplus:
        args += ["-Werror=implicit-function-declaration", "-Wno-discarded-qualifiers"]  # Cython keeps no const in its temporaries
    if DEBUG or SANITIZE:
        args += ["-O1" if SANITIZE else "-O0", "-g", "-fno-omit-frame-pointer", "-U_FORTIFY_SOURCE"]
    else:
        args += [optimisation, "-g0", *HARDENING]
        args += [*STACKS, *BRANCHES.get(sysconfig.get_platform().rpartition("-")[2], [])] if optimisation != "-O3" else []
    if DEBUG:
        args += ["-UNDEBUG"]
        if not SANITIZE and not cplusplus:  # the sanitizers watch memory by themselves
            args += ["-include", "fastdns/debug.h"]
    if SANITIZE:
        args += [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"]
    if COMPILE == "fuzz":
        # Warnings are gcc's. Offsets of list nodes are taken at NULL, which these two count as an access; AddressSanitizer sees real ones.
        args += ["-w", "-fno-sanitize=null,object-size"]
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


def header_args() -> list[str]:
    """Where the headers of OpenSSL and nghttp2 are, before the system's. Modules include them too that only cimport those which are linked with them."""
    return [f"-I{LIBRARIES / 'include'}"] if OWN else []


def library_args(library: Library | None) -> list[str]:
    """Where a library is, when linking and at run time; auditwheel finds it there too."""
    return [f"-L{LIBRARIES / 'lib'}", f"-Wl,-rpath,{LIBRARIES / 'lib'}"] if library in OWN else []


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


def link_pages() -> None:
    """Have the pages that `fastdns migrate` reads in the package too, likewise."""
    for page in ("differences.md", "coredns-1.15.md"):
        inside = Path("fastdns/migrate") / page
        if not inside.exists():
            inside.unlink(missing_ok=True)
            inside.symlink_to(Path("../../docs") / page)


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


def sample_plugins() -> set[str]:
    """Folders of the plugins that the sample's Corefile names, and of those that these import or cimport."""
    words = set(re.sub("#.*", "", SAMPLE.read_text()).split())
    folders = {path.parent.name for path in Path("plugins").glob("*/__init__.py")}
    wanted: set[str] = set()
    added = words & folders
    while added:
        wanted |= added
        texts = [path.read_text() for name in added for path in Path("plugins", name).rglob("*.p[yx]*") if path.suffix in {".py", ".pyx", ".pxd"}]
        added = {name for text in texts for name in re.findall(r"\bfastdns\.plugins\.(\w+)", text)} & folders - wanted
    return wanted


def sources() -> dict[str, Path]:
    found = {}
    for tree in COMPILED:
        for folder in walk(TREES[tree]):
            for path in sorted(folder.glob("*.pyx")):
                found[dotted(path, tree)] = path
    if COMPILE == "sample":
        wanted = sample_plugins()
        found = {name: path for name, path in found.items() if path.parts[0] != "plugins" or path.parts[1] in wanted}
    if COMPILE == "fuzz":
        found = {name: path for name, path in found.items() if any(f"{name}.".startswith(f"{fuzzed}.") for fuzzed in FUZZED)}
        found |= {name: Path(f"{name.replace('.', '/')}.pyx") for name in TARGETS}
    return found


def api_header() -> str:
    """Write the header with the fingerprint of the API for native plugins; returns where it is."""
    version = re.search(r'^__version__ = "(.*)"$', Path("fastdns/__init__.py").read_text(), re.M)
    if version is None:
        raise SystemExit("fastdns/__init__.py has no __version__")
    return str(runpy.run_path("tools/api_header.py")["write"](Path(), version[1]))


def extensions() -> list[Extension]:
    link_tree()
    fingerprint = api_header()
    found = sources()
    if not found:
        return []
    if unknown := set(OVER) - set(found) if COMPILE not in {"fuzz", "sample"} else set():
        raise SystemExit(f"setup.py: OVER names modules that are not there: {', '.join(sorted(unknown))}")
    left_out = tuple(f"{package}." for library, package in OPTIONAL.items() if not system_packages.has_header(library.header))
    for library in dict.fromkeys(OVER.values()):
        if library not in (*OWN, *OPTIONAL) and not system_packages.has_header(library.header):
            raise SystemExit(f"fastdns needs {library.name}: {library.header} is missing, install {system_packages.package(library.header)}")
    # Without the fingerprint of the API, which changes with it and is compiled into few modules.
    headers = sorted({str(path) for path in Path("fastdns").glob("*.h")} - {fingerprint})
    made = [Extension(SHARED, ["fastdns/_cyutility.c"], extra_compile_args=compile_args(False, level(SHARED)), extra_link_args=link_args())]
    archive = QUIC_LIBRARY / "libfastdns_quic.a"
    for name, path in found.items():
        library = OVER.get(name)
        language = library.language if library else "c"
        is_quic = name == QUIC
        if (is_quic and not archive.is_file()) or name.startswith(left_out):
            forget_module(path)
            continue
        made.append(
            Extension(
                name,
                [str(path)],
                include_dirs=["fastdns", str(path.parent), *[str(QUIC_LIBRARY / "include")] * is_quic],
                depends=headers + ([fingerprint] if re.search("handler_init|FASTDNS_API", path.read_text()) else []) + [str(archive)] * is_quic,
                define_macros=[("_GNU_SOURCE", "1")],
                language=language,
                libraries=library.link.split() if library else ["stdc++", "m"] if is_quic else [],
                extra_objects=[str(archive)] if is_quic else [],
                # QUIC's has headers of BoringSSL, by the same names.
                extra_compile_args=header_args() * (not is_quic) + compile_args(language == "c++", level(name)),
                # Nothing outside sees a symbol of BoringSSL, which are those of OpenSSL, and it takes none from there.
                extra_link_args=library_args(library)
                + link_args()
                + ["-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic", "-Wl,--gc-sections", "-Wl,--strip-debug"] * is_quic,
            )
        )
    return made


def forget_module(path: Path) -> None:
    """Delete what an earlier build for the same Python made of a module that this one leaves out."""
    path.with_name(path.stem + sysconfig.get_config_var("EXT_SUFFIX")).unlink(missing_ok=True)


def forget_other_recipe() -> None:
    """Delete the C files of another build recipe; Cython itself looks only at the sources."""
    import Cython

    stamp = GENERATED / "recipe"
    recipe = f"{Cython.__version__} {SHARED} {sorted(DIRECTIVES.items())}"
    if not stamp.is_file() or stamp.read_text() != recipe:
        shutil.rmtree(GENERATED, ignore_errors=True)
        GENERATED.mkdir(parents=True)
        stamp.write_text(recipe)


class Build(compilation.BuildExtensions):
    variant = VARIANT
    options = {  # noqa: RUF012
        "include_path": [".", str(LINKED)],
        "build_dir": str(GENERATED),
        "compiler_directives": DIRECTIVES,
        "shared_utility_qualified_name": SHARED,
        "cache": os.environ.get("CYTHON_CACHE_DIR") or False,
        "show_all_warnings": False,
    }

    def build_extensions(self) -> None:
        forget_other_recipe()
        super().build_extensions()

    @staticmethod
    def describe(package: Path) -> None:
        """Write down what ``fastdns -version`` lists."""
        import Cython

        features = {
            "compiler": compilation.compiler_version(),
            "optimization": ("-O1" if SANITIZE else "-O0") if DEBUG or SANITIZE else "-O3, -O2 and -O1 for what does not run for each query",
            "sanitizers": SANITIZE or "none",
            "cython": Cython.__version__,
            **quic_versions(),
            **{library.name: library_version(library) for library in sorted(set(OVER.values()))},
        }
        (package / "features.json").write_text(json.dumps(features, indent=4) + "\n")


def library_version(library: Library) -> str:
    """The version of a library, or that it is left out."""
    if library in OPTIONAL and not system_packages.has_header(library.header):
        return f"none, {system_packages.package(library.header)} has it"
    return compilation.library_version(*library[2:], header_args())


def quic_versions() -> dict[str, str]:
    """What the module of QUIC is made of, or what makes it."""
    versions = QUIC_LIBRARY / "versions.json"
    return json.loads(versions.read_text()) if versions.is_file() else {"QUIC": "none, make quic builds it"}


def scripts() -> list[str]:
    found = ["fastdns = fastdns.server.cli:main", "fastdns-node = fastdns.node.cli:main"]
    if Path("bench/cli.py").is_file():
        found.append("fastdns-bench = fastdns.bench.cli:main")
    return found


SHIPPED = ["py.typed", "*.pyi", "*.pxd", "*.h", "plugin.cfg", "README.md", "*.json", "*.yaml", "Corefile", "*.bpf", "*.html", "*.js", "*.css"]

link_order()
link_pages()
setup(
    packages=packages(),
    package_dir=TREES,
    package_data={"": SHIPPED, "fastdns": ["sample/**"], "fastdns.migrate": ["*.md"], "fastdns.bench.clients": ["quicgo/*"]},
    exclude_package_data={"": ["*.c", "*.cpp", "*.pyx"]},
    include_package_data=False,
    ext_modules=extensions(),
    entry_points={"console_scripts": scripts()},
    cmdclass={"build_ext": Build},
    zip_safe=False,
)
