"""setuptools' build_ext for Cython modules: each is translated and compiled by one of as many jobs as there are processors.

Used by ``setup.py`` alone. The objects of each variant of the build (release, debug, sanitize-...) lie apart.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, ExecError

#: Arguments of Cython's ``cythonize`` for all modules.
Options = dict[str, Any]


def jobs() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def macros(header: str = "", arguments: Sequence[str] = ()) -> dict[str, str]:
    """What the compiler defines, and a header with it: name -> text."""
    text = f"#include <{header}>\n" if header else ""
    output = subprocess.run([*compiler(), *arguments, "-dM", "-E", "-xc", "-"], input=text, text=True, stdout=subprocess.PIPE, check=True).stdout
    fields = (line.split(" ", 2)[1:] for line in output.splitlines())
    return {name: value[0] if value else "" for name, *value in fields}


def compiler_version() -> str:
    """Its name and version, such as ``gcc 12.2.0``."""
    defined = macros()
    if "__clang__" in defined:
        return "clang " + ".".join(defined[f"__clang_{part}__"] for part in ("major", "minor", "patchlevel"))
    return "gcc " + ".".join(defined[name] for name in ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__"))


def library_version(header: str, link: str, macro: str, arguments: Sequence[str] = ()) -> str:
    """What the macro of a C header says, which ``arguments`` let the compiler find, else the name of the file that ``-llink`` takes: ``libre2.so.9.0.0``."""
    if macro:
        return macros(header, arguments)[macro].strip('"')
    found = subprocess.run([*compiler(), f"-print-file-name=lib{link}.so"], text=True, stdout=subprocess.PIPE, check=True).stdout
    return Path(found.strip()).resolve().name


def translate(extension: Extension, options: Options) -> list[str]:
    """Have Cython write the C or C++ file of a module where it is not up to date. Its path."""
    from Cython.Build import cythonize

    (translated,) = cythonize([extension], nthreads=0, quiet=True, **options)
    return list(translated.sources)


def prepare_translator() -> None:
    """Cython makes many objects and few cycles: collecting those less often saves a tenth of its time."""
    gc.set_threshold(20000, 20, 20)


class Progress:
    """One line on a terminal, ten elsewhere, and none where nothing had to be compiled."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.shown = total, 0, 0
        self.compiled = False
        self.terminal = sys.stderr.isatty()
        self.lock = threading.Lock()

    def step(self) -> None:
        with self.lock:
            self.done += 1
            tenths = 10 * self.done // self.total
            if self.compiled and (self.terminal or tenths > self.shown):
                self.shown = tenths
                self.write(f"\rcompiling {self.done}/{self.total}" if self.terminal else f"compiling {self.done}/{self.total}\n")

    def tell(self, text: str) -> None:
        """What a compiler says, below the line."""
        with self.lock:
            self.write(("\n" if self.terminal else "") + text)

    def finish(self) -> None:
        if self.terminal and self.compiled:
            self.write("\n")

    @staticmethod
    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class BuildExtensions(build_ext):
    #: Set by setup.py.
    variant: ClassVar[str] = "release"
    options: ClassVar[Options] = {}
    #: Called with the folder of the package as built, after the modules.
    describe: ClassVar[Callable[[Path], None]]

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or jobs()
        if self.editable_mode:  # whose folders are temporary: what lies in the usual ones is up to date
            ordinary = self.distribution.get_command_class("build")(self.distribution)
            ordinary.ensure_finalized()
            self.build_lib, self.build_temp = ordinary.build_lib, ordinary.build_temp
        if self.variant != "release":
            self.build_temp = f"{self.build_temp}-{self.variant}"
            if self.inplace:
                self.build_lib = f"{self.build_lib}-{self.variant}"

    def run(self) -> None:
        super().run()
        package = Path(self.build_lib, "fastdns")
        package.mkdir(parents=True, exist_ok=True)
        type(self).describe(package)
        if self.inplace:
            shutil.copy(package / "features.json", "fastdns")

    def copy_extensions_to_source(self) -> None:
        last = Path("build/inplace")
        self.force = not last.is_file() or last.read_text() != self.variant
        super().copy_extensions_to_source()
        last.write_text(self.variant)

    def build_extensions(self) -> None:
        self.progress = Progress(len(self.extensions))
        self.compiler.call = self.compiler.spawn = self.run_compiler  # call since setuptools 84
        self.forget_other_arguments()
        with contextlib.ExitStack() as stack:
            context = multiprocessing.get_context("fork")
            translators = stack.enter_context(ProcessPoolExecutor(self.parallel, context, prepare_translator))
            translators.submit(jobs).result()  # starts the processes, before there are threads
            pool = stack.enter_context(ThreadPoolExecutor(self.parallel))
            # The largest first, that no processor waits at the end for one that was begun last. What Cython writes for all is not there yet.
            largest = sorted(self.extensions, key=lambda extension: -os.path.getsize(extension.sources[0]) if not self.is_shared(extension) else -sys.maxsize)
            for task in as_completed([pool.submit(self.build_module, extension, translators) for extension in largest]):
                if task.exception() is not None:
                    pool.shutdown(wait=True, cancel_futures=True)
                    self.progress.finish()
                    raise CompileError(str(task.exception()))
        self.progress.finish()

    def forget_other_arguments(self) -> None:
        """Delete modules that were compiled with other arguments; distutils itself looks only at the sources."""
        record = Path(self.build_temp, "arguments.json")
        before = json.loads(record.read_text()) if record.is_file() else {}
        now = {module.name: [*module.extra_compile_args, *module.extra_link_args, *module.libraries] for module in self.extensions}
        for name in now:
            if before.get(name) != now[name]:
                Path(self.get_ext_fullpath(name)).unlink(missing_ok=True)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(before | now))

    def build_module(self, extension: Extension, translators: Executor) -> None:
        if extension.sources[0].endswith(".pyx") or self.is_shared(extension):
            extension.sources = translators.submit(translate, extension, self.options).result()
        self.build_extension(extension)
        self.progress.step()

    def is_shared(self, extension: Extension) -> bool:
        """Whether it is Cython's module of what all others share."""
        return bool(extension.name == self.options.get("shared_utility_qualified_name"))

    def run_compiler(self, command: list[str], **_: object) -> None:
        """Run a compiler: what it says is shown as a whole, with its command where it fails."""
        self.progress.compiled = True
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            self.progress.tell(f"{shlex.join(command)}\n{done.stdout}")
            raise ExecError(f"{command[0]} failed with status {done.returncode}")
        if done.stdout:
            self.progress.tell(done.stdout)
