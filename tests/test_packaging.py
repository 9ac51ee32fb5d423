"""What is shipped: the sdist builds a wheel in which every extension works, and third parties compile against it."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.server import Server

ROOT = Path(__file__).resolve().parent.parent
#: Installed name of a top folder -> where it lies, as in setup.py.
TREES = {"fastdns": "fastdns", "fastdns/plugins": "plugins", "fastdns/bench": "bench"}
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".h")
#: Octets of a virtual environment with the wheel and what it requires, without pip.
INSTALLED_MOST = 58 << 20
#: Octets of what the image has beyond its base image, whose share of 90 MB is 25.
IMAGE_MOST = 65_000_000
#: Octets of what its tag -clouds has beyond that: the whole is at most 180 MB.
CLOUDS_MOST = 55_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

THIRD_PARTY = """
from fastdns.api.query cimport ANSWERED, Handler, NativeHandler, Query, Verdict, handler_init, query_answer

cdef Verdict answer(Handler *self, Query *q) noexcept nogil:
    query_answer(q, 0, 0x0400)
    return ANSWERED

cdef class Sample(NativeHandler):
    def __cinit__(self, *arguments):
        handler_init(self)
        self.handler.query = answer

def check():
    cdef Sample sample = Sample("sample")
    return sample.handler.query == answer and sample.handler.accepted and sample.name == "sample"
"""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def sources() -> dict[str, Path]:
    """Installed path -> file of the tree."""
    return {
        f"{installed}/{path.relative_to(ROOT / folder)}": path
        for installed, folder in TREES.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in SOURCES and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / "setup.py").is_file():
        pytest.skip("needs the source tree")
    tree = tmp_path_factory.mktemp("tree") / "fastdns"
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "dist", "wheelhouse", "*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=left_out)
    run(sys.executable, "setup.py", "-q", "sdist", cwd=tree)
    (made,) = (tree / "dist").glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that `make wheel` left if it is newer than every source, else one made from the sdist."""
    newest = max(path.stat().st_mtime for path in [*sources().values(), ROOT / "setup.py", ROOT / "MANIFEST.in", ROOT / "pyproject.toml"])
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-"
    for made in (ROOT / "wheelhouse").glob(f"*-{tag}*.whl"):
        if made.stat().st_mtime > newest:
            return made
    folder = tmp_path_factory.mktemp("wheel")
    environment = {"FASTDNS_QUIC": str(ROOT / "build/quic")}
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder, sdist, cwd=folder, env=environment)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but what the wheel holds; on PYTHONPATH it comes before an editable install."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_the_sdist_holds_every_source(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers()}
    wanted = {str(path.relative_to(ROOT)) for path in sources().values()}
    wanted |= {"setup.py", "pyproject.toml", "plugin.cfg", "LICENSE", "README.md", "fastdns/py.typed", "tests/conftest.py", "tools/api_header.py"}
    assert not wanted - names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


def test_the_wheel_holds_extensions_and_declarations(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {name for name in sources() if not name.endswith(".pyx")}
    wanted |= {"fastdns/py.typed", "fastdns/plugin.cfg", "fastdns/sample/Corefile", "fastdns/sample/cluster.yaml", "fastdns/fastdns_api.h"}
    wanted |= {"fastdns/migrate/differences.md", "fastdns/migrate/coredns-1.15.md"}
    assert not wanted - names
    stems = {name.partition(".")[0] for name in names if name.endswith(".so") and not name.startswith("fastdns.libs/")}
    assert stems == {name.removesuffix(".pyx") for name in sources() if name.endswith(".pyx")} | {"fastdns/_cyutility"}
    assert not [name for name in names if name.endswith((".c", ".cpp", ".pyx"))]
    assert all(name.startswith("fastdns") for name in names), "nothing beside the package, its metadata and the libraries it brings"


def test_every_extension_of_the_wheel_imports(installed: Path, tmp_path: Path) -> None:
    stems = {name.removesuffix(".pyx") for name in sources() if name.endswith(".pyx")}
    modules = [stem.replace("/", ".") for stem in sorted(stems)]
    assert modules
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    print(importlib.import_module(name).__file__)"
    files = run(sys.executable, "-c", code, *modules, cwd=tmp_path, env={"PYTHONPATH": str(installed)}).splitlines()
    assert len(files) == len(modules)
    assert all(file.startswith(str(installed)) for file in files)


def required(distribution: metadata.Distribution) -> set[str]:
    """The names of all packages that it brings with it, without extras."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        for line in waiting.pop().requires or ():
            requirement = Requirement(line)
            name = requirement.name.lower()
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                waiting.append(metadata.distribution(name))
    return found


def test_the_wheel_requires_what_serves_all_transports_and_no_more(installed: Path) -> None:
    (shipped,) = metadata.distributions(name="fastdns", path=[str(installed)])
    names = required(shipped)
    assert not names & {"aioquic", "cffi", "cryptography", "h11", "h2", "hpack", "kubernetes", "prometheus-client", "pytest", "dpkt", "rich"}
    files = [file.locate() for name in names for file in metadata.distribution(name).files or ()]
    files += [path for path in installed.rglob("*") if path.is_file()]
    assert sum(os.path.getsize(path) for path in files if os.path.exists(path)) <= INSTALLED_MOST


def test_the_root_of_the_image(installed: Path, tmp_path: Path) -> None:
    """What the server needs and no more, without libraries of the base image; all files of one time."""
    if not (ROOT / "build/quic/licenses").is_dir():
        pytest.skip("make quic has not put licences together")
    venv.create(tmp_path / "python", symlinks=True)
    (site,) = (tmp_path / "python/lib").glob("python3*/site-packages")
    shutil.copytree(installed, site, dirs_exist_ok=True)
    (shipped,) = metadata.distributions(name="fastdns", path=[str(installed)])
    for distribution in (metadata.distribution(name) for name in required(shipped)):
        for file in distribution.files or ():
            if ".." not in file.parts and (path := Path(str(file.locate()))).is_file():
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, site / file)
    shutil.copytree(site / "dns", site / "pip")
    base, root = tmp_path / "base", tmp_path / "root"
    # One package of Debian has both, and the base image has it.
    for library in set(re.findall(r"=> (/\S+/lib(?:ssl|crypto)\.so\S*)", run("ldd", ssl._ssl.__file__, cwd=ROOT))):  # type: ignore[attr-defined]
        (base / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (base / library.lstrip("/")).touch()
    run("sh", ROOT / "deploy/root.sh", root, base, cwd=ROOT, env={"PYTHON": str(tmp_path / "python/bin/python3"), "SOURCE_DATE_EPOCH": "1000000000"})
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= IMAGE_MOST
    assert {path.lstat().st_mtime for path in root.rglob("*")} == {1e9}
    names = {str(path.relative_to(root)) for path in files}
    assert {"coredns", "node-cache", "usr/share/sbom/fastdns.cdx.json"} <= names
    assert not [name for name in names if re.search(r"site-packages/(pip|setuptools|kubernetes|boto3|fastdns/bench)/|\.p(yx|xd|yi)$", name)]
    assert not [name for name in names if re.search(r"/lib(ssl|crypto)\.so|^lib/", name)]


#: What plugins use of the libraries of the tag -clouds, in an interpreter that has no others.
CLOUDS_USED = """
import sys
sys.path.append(sys.argv[1])
import fastdns.plugins.azure.api, fastdns.plugins.clouddns.api, fastdns.plugins.route53.api, fastdns.plugins.trace.otlp
import boto3, botocore.session
keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "eu-central-1"}
for service in ("route53", "secretsmanager", "sts", "sso", "sso-oidc"):
    boto3.Session(**keys).client(service)
print(boto3.__file__)
"""


def test_the_root_of_the_tag_clouds(installed: Path, tmp_path: Path) -> None:
    """What the libraries of clouds take, and that what was left out of them is not what plugins use."""
    target = tmp_path / "clouds"
    run("sh", ROOT / "deploy/clouds.sh", target, cwd=ROOT, env={"PYTHON": sys.executable, "SOURCE_DATE_EPOCH": "1000000000"})
    files = [path for path in target.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= CLOUDS_MOST
    assert {path.lstat().st_mtime for path in target.rglob("*")} == {1e9}
    names = {str(path.relative_to(target)) for path in files}
    assert "usr/share/sbom/fastdns-clouds.cdx.json" in names
    assert not [name for name in names if re.search(r"site-packages/bin/|/tests?/|\.p(xd|yi)$|botocore/data/(ec2|s3)/", name)]
    (site,) = target.rglob("site-packages")
    # As in the image: nothing else is installed but what the server needs.
    lean = tmp_path / "lean"
    shutil.copytree(installed, lean)
    (shipped,) = metadata.distributions(name="fastdns", path=[str(installed)])
    for distribution in (metadata.distribution(name) for name in required(shipped)):
        for file in distribution.files or ():
            if ".." not in file.parts and (path := Path(str(file.locate()))).is_file():
                (lean / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, lean / file)
    base = Path(sys.base_prefix) / "bin/python3"
    printed = run(base, "-I", "-S", "-W", "error", "-c", f"import sys; sys.path.append({str(lean)!r})\n{CLOUDS_USED}", site, cwd=tmp_path)
    assert Path(printed.strip()).is_relative_to(site)


def test_the_wheel_says_what_it_was_built_with(installed: Path) -> None:
    assert json.loads((installed / "fastdns" / "features.json").read_text()) == json.loads((ROOT / "fastdns" / "features.json").read_text())


def test_licences_of_bundled_libraries_are_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """auditwheel's copies of libre2 and others come with their licences, listed in RECORD like every file."""
    if not any(name.startswith("fastdns.libs/") for name in zipfile.ZipFile(wheel).namelist()):  # not repaired: as auditwheel would
        repaired = tmp_path / wheel.name
        shutil.copy(wheel, repaired)
        linked = system_libraries(wheel, tmp_path)
        with zipfile.ZipFile(repaired, "a") as archive:
            for path in linked:
                archive.write(path, f"fastdns.libs/{path.name.replace('.so', '-0123abcd.so', 1)}")
        run(sys.executable, ROOT / "tools" / "licenses.py", "wheel", repaired, cwd=tmp_path)
        wheel = repaired
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode()
        texts = {name: archive.read(name).decode() for name in names if ".dist-info/licenses/" in name and not name.endswith("/")}
    bundled = [name for name in names if name.startswith("fastdns.libs/")]
    assert any("libre2" in name for name in bundled)
    assert any("The RE2 Authors" in text for text in texts.values())
    assert any(name.endswith("boring-sys/BoringSSL-LICENSE") for name in texts)
    assert any("Cloudflare" in text for name, text in texts.items() if "/quiche/" in name)
    assert all(f"{name},sha256=" in record for name in texts)
    assert any(name.endswith("licenses/LICENSE") for name in texts)


def system_libraries(wheel: Path, folder: Path) -> list[Path]:
    """What the wheel's modules are linked with, but for those of glibc and gcc."""
    with zipfile.ZipFile(wheel) as archive:
        modules = [archive.extract(name, folder / "modules") for name in archive.namelist() if name.endswith(".so")]
    lines = run("ldd", *modules, cwd=folder).splitlines()
    paths = {words[2] for words in map(str.split, lines) if "=>" in words and words[2].startswith("/")}
    return sorted(Path(path) for path in paths if not re.search(r"/(libc|libm|libgcc_s|libstdc\+\+|libpthread|libdl)\.so", path))


def test_functions_of_openssl_are_those_of_one_library(installed: Path) -> None:
    """Those of `make wheel-libraries` have versions of their own, so that no other OpenSSL of a process can take their place."""
    modules = [path for path in installed.rglob("*.so") if path.parent.name != "fastdns.libs"]
    symbols = re.findall(r" U (\w+)@(OPENSSL_[A-Z]*)", run("nm", "-D", "--with-symbol-versions", *modules, cwd=installed))
    assert {"SSL_new", "EVP_DigestSign", "EVP_MAC_fetch"} <= {name for name, _ in symbols}
    assert {version for _, version in symbols} == {"OPENSSL_FASTDNS" if (ROOT / "build/libraries/versions.json").is_file() else "OPENSSL_"}


def test_the_wheel_has_the_commands(installed: Path) -> None:
    (text,) = (path.read_text() for path in installed.glob("*.dist-info/entry_points.txt"))
    assert "fastdns = fastdns.server.cli:main" in text
    assert ("fastdns-bench" in text) == (ROOT / "bench" / "cli.py").is_file()


def test_a_third_party_extension_compiles_against_the_wheel(installed: Path, tmp_path: Path) -> None:
    declared = [name for name in sources() if name.startswith("fastdns/plugins/") and name.endswith(".pxd")]
    cimports = "".join(f"cimport {name.removesuffix('.pxd').replace('/', '.')}\n" for name in declared)
    (tmp_path / "third_party.pyx").write_text(cimports + THIRD_PARTY)
    (tmp_path / "setup.py").write_text(
        "import fastdns\nfrom setuptools import Extension, setup\nfrom Cython.Build import cythonize\n"
        "extension = Extension('third_party', ['third_party.pyx'], include_dirs=[fastdns.get_include()])\n"
        "setup(name='third-party', ext_modules=cythonize([extension], language_level=3, quiet=True))\n"
    )
    env = {"PYTHONPATH": str(installed)}
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path, env=env)
    assert run(sys.executable, "-c", "import third_party; print(third_party.check())", cwd=tmp_path, env=env) == "True\n"


def test_a_package_with_a_native_plugin(wheel: Path, tmp_path: Path) -> None:
    """Built against the installed wheel, installed beside it, and its own tests run there: they ask a server through a socket."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # What fastdns and the tests need of others; a path in a .pth file brings no .pth files of its own, and so no editable fastdns.
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", "--ignore-installed"]
    run(*pip, wheel, cwd=tmp_path)
    package = shutil.copytree(ROOT / "tests/packages/native_plugin", tmp_path / "native_plugin")
    run(*pip, "--no-build-isolation", package, cwd=tmp_path)
    place = run(python, "-c", "import fastdns, fastdns_clientip._clientip as m; print(fastdns.__file__, m.__file__)", cwd=tmp_path)
    assert all(file.startswith(str(environment)) for file in place.split())
    told = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", package / "tests", cwd=tmp_path)
    assert " 4 passed" in f" {told.splitlines()[-1]}"


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel alone, and of this one what the wheel and tests need from elsewhere."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    others = folder / "others"
    others.mkdir()
    for path in map(Path, {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}):
        for entry in path.iterdir():
            if "fastdns" not in entry.name and entry.suffix != ".pth" and not (others / entry.name).exists():
                (others / entry.name).symlink_to(entry)
    purelib = folder / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (purelib / "others.pth").write_text(f"{others}\n")
    install(folder / "venv", wheel)
    return folder / "venv"


def install(environment: Path, wheel: Path) -> None:
    run(sys.executable, "-m", "pip", f"--python={environment / 'bin' / 'python'}", "install", "-q", "--no-deps", "--no-index", wheel, cwd=environment)


def test_a_package_with_a_python_plugin(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built, installed, found by its entry point; its own tests and mypy pass, and it serves."""
    tree = tmp_path / "python_plugin"
    shutil.copytree(ROOT / "tests" / "packages" / "python_plugin", tree)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path, tree, cwd=tmp_path)
    (made,) = tmp_path.glob("fastdns_sinkhole-*.whl")
    install(environment, made)
    python = environment / "bin" / "python"
    clean = {"PYTHONPATH": "", "MYPYPATH": ""}
    shutil.rmtree(tree / "src")
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tree, "tests", cwd=tree, env=clean)
    run(python, "-m", "mypy", "--strict", "--config-file=", "-p", "fastdns_sinkhole", cwd=tmp_path, env=clean)
    run(python, "-m", "mypy", "--strict", "--config-file=", tree / "tests" / "test_sinkhole.py", cwd=tmp_path, env=clean)
    assert "sinkhole" in run(environment / "bin" / "fastdns", "-plugins", cwd=tmp_path, env=clean).split()
    (tmp_path / "names.txt").write_text("ads.example.\n")
    monkeypatch.setenv("FASTDNS_BIN", str(environment / "bin" / "fastdns"))
    folder = tmp_path / "server"
    folder.mkdir()
    with Server(folder, ".:{port} {\n bind 127.0.0.1\n sinkhole {dir}/../names.txt {\n  answer 192.0.2.1\n }\n whoami\n}\n", env=clean) as server:
        assert server.answers("a.ads.example.") == ["192.0.2.1"]
        assert server.query("other.example.").additional
