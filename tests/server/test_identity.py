"""Whether the block of a configuration is the same as that of another: its keys, directives and the files that its plugins read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import fastdns.plugins
from fastdns.server.configuration import Configuration
from fastdns.server.source import Source
from fastdns.setup.files import FILES_MAX, OCTETS_MAX, PART, digest

ZONE = "@ 3600 IN SOA ns host 1 3600 600 86400 3600\nwww 3600 IN A 192.0.2.1\n"
#: Plugins that open files which no answer depends on.
WITHOUT_FILES = {"pprof", "trace"}


def test_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are replaced before blocks are compared."""
    source = Source(b". {\n cache {$FASTDNS_TTL}\n whoami\n}\n", "Corefile", "")

    def identity(ttl: str) -> str:
        monkeypatch.setenv("FASTDNS_TTL", ttl)
        made = Configuration(source, "53")
        made.discard()
        return made.configs[0].identity

    assert identity("30") == identity("30") != identity("31")


#: What a block reads, with FILE, and what besides is in it.
READERS = {
    "hosts": "hosts FILE",
    "file": "file FILE example.org {\n reload 0\n }",
    "auto": "auto {\n directory FOLDER\n }",
    "forward": "forward . FILE",
    "grpc": "grpc . FILE",
    "kubernetes": "kubernetes {\n manifests FOLDER\n }",
    "blocklist": "blocklist {\n hosts FILE\n }\n whoami",
    "autopath": "autopath FILE\n whoami",
    "tsig": "tsig {\n secrets FILE\n }\n whoami",
    "loadbalance": "loadbalance weighted FILE\n whoami",
    "dynupdate": "dynupdate {\n file FILE\n allow key. * A\n }",
}
CONTENTS = {
    "hosts": ("192.0.2.1 a.example.org\n", "192.0.2.2 a.example.org\n"),
    "file": (ZONE, ZONE.replace("192.0.2.1", "192.0.2.2")),
    "forward": ("nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"),
    "autopath": ("search a.test\n", "search b.test\n"),
    "blocklist": ("0.0.0.0 a.test\n", "0.0.0.0 b.test\n"),
    "tsig": ('key "k." {\n secret "c2VjcmV0";\n};\n', 'key "k." {\n secret "c2VjcmV1";\n};\n'),
    "loadbalance": ("a.example.org\n192.0.2.1 1\n", "a.example.org\n192.0.2.1 2\n"),
    "kubernetes": ("", '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}\n'),
}
CONTENTS["auto"], CONTENTS["grpc"] = CONTENTS["file"], CONTENTS["forward"]
CONTENTS["dynupdate"] = CONTENTS["file"]


@pytest.mark.parametrize("plugin", READERS)
def test_files_are_part_of_the_identity(tmp_path: Path, plugin: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / ("objects.json" if plugin == "kubernetes" else "db.example.org")
    block = READERS[plugin].replace("FILE", str(file)).replace("FOLDER", str(folder))
    source = Source(f"example.org {{\n cache\n {block}\n}}\n".encode(), "Corefile", "")

    def identity(contents: str) -> str:
        file.write_text(contents)
        made = Configuration(source, "53")
        made.discard()
        return made.configs[0].identity

    first, second = CONTENTS[plugin]
    assert identity(first) == identity(first) != identity(second)


def test_files_are_read_for_who_takes_over_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without such a plugin a directory may have whatever it has."""
    read: list[str] = []

    def note(path: str) -> bytes:
        read.append(path)
        return b""

    monkeypatch.setattr("fastdns.setup.controller.digest", note)
    for plugin, wanted in (("cache", [str(tmp_path)]), ("loadbalance", [])):
        read.clear()
        made = Configuration(Source(f"example.org {{\n {plugin}\n auto {{\n directory {tmp_path}\n }}\n}}\n".encode(), "Corefile", ""), "53")
        made.discard()
        assert read == wanted
        assert bool(made.configs[0].identity) == bool(wanted)


def test_what_is_too_much_to_compare(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(OCTETS_MAX + 1)
    assert digest(str(large)) != digest(str(large))
    assert digest(str(tmp_path)) != digest(str(tmp_path))
    large.unlink()
    many = tmp_path / "many"
    many.mkdir()
    for number in range(FILES_MAX):
        (many / str(number)).touch()
    assert digest(str(many)) != digest(str(many))
    (many / "0").unlink()
    assert digest(str(many)) == digest(str(many))
    assert digest(str(tmp_path)) != digest(str(tmp_path))


def test_digests(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert digest(str(file)) == b""
    file.write_text("one")
    one = digest(str(file))
    assert one == digest(str(file)) != b""
    file.write_text("two")
    assert digest(str(file)) != one
    # What others have an influence on is never as it was.
    for before in (10, PART - 5, PART + 5):
        file.write_text(";" * before + "\n $include other\n")
        assert digest(str(file)) != digest(str(file))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert digest(str(pipe)) != digest(str(pipe))
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    seen = {digest(str(folder))}
    for name in ("a", "below/a", "below/b"):
        (folder / name).write_text("x")
        seen.add(digest(str(folder)))
    (folder / "a").write_text("y")
    seen.add(digest(str(folder)))
    assert len(seen) == 5
    assert digest(str(folder)) == digest(str(folder))


@pytest.mark.parametrize(
    "folder", [path for top in fastdns.plugins.__path__ for path in sorted(Path(top).iterdir()) if path.is_dir()], ids=lambda path: path.name
)
def test_plugins_say_what_they_read(folder: Path) -> None:
    """Who opens files takes their paths from `Controller.path`, or tells them to `Controller.reads`."""
    source = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    if re.search(r"\b(?<!os\.)open\(|\.read_(text|bytes)\(", source) and folder.name not in WITHOUT_FILES:
        assert re.search(r"\bcontroller\.(path|reads)\(|\bc\.path\(", source)
