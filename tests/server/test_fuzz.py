"""Whatever a Corefile says, it is set up or refused with a CorefileError: no crash, no hang."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from fastdns.corefile import CorefileError
from fastdns.server.configuration import Configuration
from fastdns.server.source import Source
from fastdns.setup import registry

#: Their set-ups look at the machine or at other servers.
LEFT_OUT = frozenset(["kubernetes", "on", "plugin", "etcd", "forward"])
WORDS = re.compile(r"[a-z_]+")


def vocabulary() -> tuple[list[str], list[str]]:
    """Directives that are built, and the words that their pages use for properties."""
    names = [name for name in registry.built() if name not in LEFT_OUT]
    properties = set()
    for name in names:
        page = Path(registry.folder_of(registry.in_tree()[name]), "README.md").read_text()
        for block in re.findall(r"^~~~ (?:txt|corefile)\n(.*?)^~~~", page, re.M | re.S):
            properties |= set(WORDS.findall(block))
    return names, sorted(properties)


@pytest.mark.parametrize("seed", range(8))
def test_any_words(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = random.Random(seed)
    names, properties = vocabulary()
    values = ["0", "-1", "5", "99999999999999999999", "1s", "-1s", "1h", "x", ".", "a.org", "10.0.0.0/8", "::1", "127.0.0.1:53", '""', "{", "}"]
    values += ["*", "\\", '"a b"', "\xff", "{$PATH}", ":0", "[", "(", "%", "é"]

    def line(first: str) -> str:
        return " ".join([first, *(source.choice(values + properties) for _ in range(source.choice([0, 0, 1, 1, 2, 3])))])

    for _ in range(60):
        lines = [line(".") if source.random() < 0.2 else ".:0", "{"] if source.random() < 0.1 else [".:0 {"]
        for _ in range(source.randrange(4)):
            lines.append(line(source.choice(names)))
            if source.random() < 0.6:
                lines[-1] += " {"
                lines += [line(source.choice(properties)) for _ in range(source.randrange(4))]
                lines.append("}")
        lines.append("}")
        try:
            Configuration(Source("\n".join(lines).encode(), "Corefile"), "53")
        except CorefileError as error:
            message = str(error)
            assert message
            # Only what nobody foresaw is told with the class of its exception.
            assert not re.search(r"\b[A-Z]\w+Error: ", message), "\n".join([message, *lines])
