"""Writes fastdns_api.h: the fingerprint of fastdns/api/*.pxd and of all that they cimport, without comments, docstrings and blank lines.

python tools/api_header.py FOLDER VERSION       FOLDER holds the package fastdns; the header is written into FOLDER/fastdns
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

CIMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(fastdns[\w.]*)[ \t]+cimport[ \t]+(\([^)]*\)|[^\n]*)|cimport[ \t]+(fastdns[\w.]*))", re.M)
#: A text in three quotes; where it stands directly below `cdef extern from`, it is C.
BLOCK = re.compile(r'(cdef extern from [^\n]*\n\s*)?"""(?:.|\n)*?"""')
#: A comment, or a text that it may seem to begin in.
COMMENT = re.compile(r"('[^'\n]*'|\"[^\"\n]*\")|[ \t]*#[^\n]*")


def bare(text: str) -> str:
    """A header without comments, docstrings, blank lines and spaces that align."""
    code: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if match[1] is None:
            return ""
        code.append(match[0])
        return f"<{len(code)}>"

    text = COMMENT.sub(lambda match: match[1] or "", BLOCK.sub(keep, text))
    lines = [re.sub(r"(?<=\S)[ \t]+", " ", line).rstrip() for line in text.split("\n")]
    return "\n".join([*(line for line in lines if line), *code])


def headers(root: Path) -> dict[str, str]:
    """Module name to text, of the API and of all that it cimports."""
    found: dict[str, str] = {}
    waiting = [f"fastdns.api.{path.stem}" for path in sorted((root / "fastdns/api").glob("*.pxd"))]
    while waiting:
        module = waiting.pop()
        path = root / (module.replace(".", "/") + ".pxd")
        if module in found or not path.is_file():
            continue
        found[module] = bare(path.read_text())
        for source, names, whole in CIMPORT.findall(found[module]):
            waiting.append(source or whole)
            waiting += [f"{source}.{name.split(' as ')[0].strip()}" for name in names.strip("()").split(",")] if source else []
    return found


def fingerprint(root: Path) -> str:
    """16 hexadecimal digits."""
    digest = hashlib.sha256()
    for module, text in sorted(headers(root).items()):
        digest.update(f"{module}\n{text}\n\0".encode())
    return digest.hexdigest()[:16]


def write(root: Path, version: str) -> Path:
    """The header; left alone where it says so already, so that nothing is compiled for it."""
    text = (
        "/* Written by tools/api_header.py: what native plugins are compiled against, see docs/native-plugin-api.md. */\n"
        f'#define FASTDNS_API_VERSION "{version}"\n#define FASTDNS_API_FINGERPRINT "{fingerprint(root)}"\n'
    )
    path = root / "fastdns/fastdns_api.h"
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
    return path


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), sys.argv[2]).read_text(), end="")
