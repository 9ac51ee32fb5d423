"""Prints what the sanitizers have reported of the processes of a run: ``reports.py FOLDER``; status 66 where that is anything. with_sanitizers.sh calls it.

Of leaks only those count that our modules, or their libraries, have allocated and that nothing points to, and Python objects that our modules have made where
they are many of one place. A few are in Python's frames, where LeakSanitizer does not look, as a server ends without leaving them. What a lost object owns is
an indirect leak, and does not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

STATUS = 66

#: Python objects of one place that frames may have.
FEW = 10

LEAK = re.compile(r"^Direct leak of \d+ byte\(s\) in (\d+) object\(s\).*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
FRAME = re.compile(r"^ +#\d+ 0x[0-9a-f]+ (.*)$", re.MULTILINE)
#: Who asked for a block: the first frame that is none of the sanitizer's library.
ALLOCATOR = re.compile(r"libasan\.so|libsanitizer/")
OURS = re.compile(r"build/cython/|/fastdns/|/plugins/|tests/native/|lib(crypto|ssl|nghttp2|re2)\.so")


def leaks(text: str) -> Iterator[str]:
    """The reports of leaks that count."""
    for leak in LEAK.finditer(text):
        frames = [frame for frame in FRAME.findall(leak[0]) if not ALLOCATOR.search(frame)]
        if any(OURS.search(frame) for frame in (frames if int(leak[1]) > FEW else frames[:1])):
            yield leak[0]


def place(report: str) -> str:
    """What tells reports apart: the functions, without addresses and numbers of octets."""
    return "\n".join(FRAME.findall(report)) or report


def collect(folder: Path) -> dict[str, list[str]]:
    """Reports, each with the tests whose processes made it."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in sorted(folder.iterdir()):
        name, _, pid = path.name.rpartition(".")
        if not pid.isdigit():
            continue
        text = path.read_text(errors="replace")
        note = folder / f"{pid}.test"
        test = note.read_text().strip() if note.is_file() else f"process {pid}"
        for report in leaks(text) if name == "leak" else [text]:
            found.setdefault(place(report), (report, []))[1].append(test)
    return dict(found.values())


def main(folder: Path) -> int:
    found = collect(folder)
    for report, tests in found.items():
        print(report.strip(), f"in {len(tests)} processes, first {tests[0]}", sep="\n", end="\n\n")
    return STATUS if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
