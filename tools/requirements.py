"""Prints the Python packages that pyproject.toml names, one a line: python tools/requirements.py build|EXTRA

``build`` is what compiling and serving need; an extra is what it adds to that.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main(extra: str) -> None:
    parsed = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
    project = parsed["project"]
    wanted = parsed["build-system"]["requires"] + project["dependencies"] if extra == "build" else project["optional-dependencies"][extra]
    print(*wanted, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
