"""The libraries of wheels: what is pinned, and that nothing else is built."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path

import pytest

from tools import licenses, wheel_libraries
from tools.wheel_libraries import Source

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="needs the source tree")


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """One that can be downloaded, and folders for it."""
    archive = tmp_path / "upstream" / "sample-1.0.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as files:
        member = tarfile.TarInfo("sample-1.0/COPYING")
        member.size = 4
        files.addfile(member, io.BytesIO(b"text"))
    monkeypatch.setattr(wheel_libraries, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(wheel_libraries, "WORK", tmp_path / "work")
    return Source("sample", "1.0", archive.as_uri(), hashlib.sha256(archive.read_bytes()).hexdigest(), "COPYING")


def test_pins() -> None:
    pins = wheel_libraries.pins()
    assert set(pins) == set(wheel_libraries.BUILDERS) == {"openssl", "nghttp2"}
    assert pins["openssl"].version.startswith("3.5."), "the long-term release, with ML-KEM"
    for name, source in pins.items():
        assert re.fullmatch(rf"https://github\.com/{name}/{name}/releases/download/[\w.-]+/{name}-{re.escape(source.version)}\.tar\.gz", source.url)
        assert re.fullmatch("[0-9a-f]{64}", source.sha256)


def test_a_release_is_downloaded_once(release: Source) -> None:
    assert (wheel_libraries.unpack(release) / "COPYING").read_text() == "text"
    Path(release.url.removeprefix("file://")).unlink()
    assert (wheel_libraries.unpack(release) / "COPYING").read_text() == "text"


def test_another_archive_than_the_pinned_one_is_refused(release: Source) -> None:
    with pytest.raises(SystemExit, match=f"sample-1.0.tar.gz has the SHA-256 digest {release.sha256}, not {'0' * 64} as in wheel_libraries.json"):
        wheel_libraries.unpack(release._replace(sha256="0" * 64))
    assert not wheel_libraries.WORK.exists()


def test_a_download_that_fails(release: Source) -> None:
    url = release.url.replace("upstream", "nowhere")
    with pytest.raises(SystemExit, match=re.escape(url)):
        wheel_libraries.unpack(release._replace(url=url))
    assert list(wheel_libraries.SOURCES.iterdir()) == []


def test_licences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the releases, for libraries made here."""
    monkeypatch.setattr(licenses, "LIBRARIES", tmp_path)
    for folder, file in (("licenses/openssl", "LICENSE.txt"), ("licenses/nghttp2", "COPYING")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / file).write_text(folder)
    (tmp_path / "versions.json").write_text('{"openssl": "3.5.9", "nghttp2": "1.68.0"}')
    (tmp_path / "lib").mkdir()
    names = [f"libssl{wheel_libraries.VARIANT}.so.3", f"libcrypto{wheel_libraries.VARIANT}.so.3", "libnghttp2.so.14"]
    for name in names:
        (tmp_path / "lib" / name).touch()
    found = licenses.licences([licenses.located(name) for name in names])
    assert found == {"openssl/LICENSE.txt": b"licenses/openssl", "nghttp2/COPYING": b"licenses/nghttp2"}


@pytest.mark.parametrize(
    ("bundled", "name"),
    [
        ("libcrypto-fastdns-0345fd1a.so.3", "libcrypto-fastdns.so.3"),
        ("libevent-2-0345fd1a.1.so.7.0.1", "libevent-2.1.so.7.0.1"),
        ("libunbound-24e2cfa9.so.8.1.21", "libunbound.so.8.1.21"),
        ("libabcdef01-24e2cfa9.so", "libabcdef01.so"),
    ],
)
def test_the_name_of_a_library_before_auditwheel(bundled: str, name: str) -> None:
    assert licenses.BUNDLED.sub("", bundled) == name
