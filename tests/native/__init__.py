"""Native modules that only tests use: compiled against the headers of the fastdns under test when they are first imported.

What is compiled is kept in ``build/tests``, under the digest of everything that it was made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import fastdns

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = Path(fastdns.__file__).resolve().parent

#: Compiles sys.argv[1] with the folders sys.argv[2:] as places of ``fastdns``.
SETUP = """\
import sys
import fastdns
from Cython.Build import cythonize
from setuptools import Extension, setup
name, path, *sanitize = sys.argv[1:]
extension = Extension(
    name,
    [f"{name}.pyx"],
    include_dirs=[fastdns.get_include()],
    extra_compile_args=["-O0", "-w", *sanitize],
    extra_link_args=sanitize,
    define_macros=[("_GNU_SOURCE", "1")],
)
setup(ext_modules=cythonize([extension], language_level=3, include_path=[path], quiet=True), script_args=["-q", "build_ext", "--inplace"])
"""


def headers() -> list[Path]:
    """The declarations of fastdns; in a source tree those of the plugins lie beside it."""
    plugins = PACKAGE.parent / "plugins"
    return sorted(path for folder in (PACKAGE, plugins) if folder.is_dir() for suffix in ("*.pxd", "*.h") for path in folder.rglob(suffix))


def compiled(name: str) -> ModuleType:
    """The module of ``tests/native/NAME.pyx``. Raises AssertionError with the compiler's output where it does not compile."""
    source = HERE / f"{name}.pyx"
    # As the build that it reads the memory of: inline functions may differ.
    sanitize = [f"-fsanitize={os.environ.get('FASTDNS_SANITIZE', 'address,undefined')}"] if os.environ.get("FASTDNS_SANITIZED") else []
    digest = hashlib.sha256(f"{sys.version} {sanitize}".encode())
    for path in [Path(__file__), source, *headers()]:
        digest.update(path.read_bytes())
    folder = ROOT / "build" / "tests" / digest.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    with (folder / "lock").open("w") as lock:  # of the processes that share the tests one compiles
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.is_file():
            (folder / source.name).write_text(source.read_text())
            environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | {"PYTHONPATH": str(PACKAGE.parent)}
            tree = ROOT / "build" / "tree"  # where the folders of a source tree stand as the import names say
            done = subprocess.run(
                [sys.executable, "-c", SETUP, name, str(tree), *sanitize], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert library.is_file(), done.stdout + done.stderr
    spec = importlib.util.spec_from_file_location(f"tests.native.{name}", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
