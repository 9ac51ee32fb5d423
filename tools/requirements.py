"""Prints the Python packages that pyproject.toml names, one a line: python tools/requirements.py build|release|serve|EXTRA

``build`` is what compiling and serving need, ``release`` what wheels are made with (twine only looks at them), ``serve`` what the server imports,
``clouds`` what the image's tag -clouds adds to that: the extras clouds and otlp. Another extra is what it adds to ``build``. Of ``release``, ``serve``,
``clouds`` and the extra ``site`` tools/locks has the versions and digests for wheels, the image and the site: make locks.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main(extra: str) -> None:
    parsed = tomllib.loads((Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
    project = parsed["project"]
    compiles, serves, extras = parsed["build-system"]["requires"], project["dependencies"], project["optional-dependencies"]
    combined = {"build": compiles + serves, "release": compiles + [want for want in extras["wheel"] if not want.startswith("twine")], "serve": serves}
    combined["clouds"] = extras["clouds"] + extras["otlp"]
    wanted = combined[extra] if extra in combined else extras[extra]
    print(*wanted, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
