"""Base images of deploy's Dockerfiles: build arguments, whose defaults are those of deploy/images.env.

python tools/base_images.py write     puts the lines of deploy/images.env into the Dockerfiles
python tools/base_images.py pin       has docker look up the present digest of each image, and writes it there too; for releases

Exits with a message where docker knows no digest, or a Dockerfile begins with something else than a build argument.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "deploy/images.env"
DOCKERFILES = [ROOT / "deploy/Dockerfile", ROOT / "deploy/bench/Dockerfile"]

#: NAME=IMAGE:TAG, in a release with @sha256:DIGEST.
LINE = re.compile(r"^([A-Z_]+)=([^\s@]+:[^\s@:/]+)(?:@(sha256:[0-9a-f]{64}))?$", re.M)
ARGUMENT = re.compile(r"^ARG ([A-Z_]+_IMAGE)=.*$", re.M)


def images(text: str) -> dict[str, tuple[str, str]]:
    """Build argument -> image with its tag, and its digest, empty where none is known."""
    return {name: (image, digest) for name, image, digest in LINE.findall(text)}


def reference(image: str, digest: str) -> str:
    return f"{image}@{digest}" if digest else image


def looked_up(image: str) -> str:
    """The digest of an image for all platforms, as its registry says."""
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    try:
        digest = subprocess.run(command, text=True, capture_output=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{image}: {getattr(error, 'stderr', '') or error}")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        sys.exit(f"{image}: docker gives no digest but {digest!r}")
    return digest


def write(known: dict[str, tuple[str, str]]) -> None:
    for path in DOCKERFILES:
        text = path.read_text()
        path.write_text(ARGUMENT.sub(lambda found: f"ARG {found[1]}={reference(*known[found[1]])}", text))


def main(arguments: list[str]) -> None:
    if arguments not in (["write"], ["pin"]):
        sys.exit(__doc__)
    text = FILE.read_text()
    if arguments == ["pin"]:
        text = LINE.sub(lambda line: f"{line[1]}={reference(line[2], looked_up(line[2]))}", text)
        FILE.write_text(text)
    write(images(text))


if __name__ == "__main__":
    main(sys.argv[1:])
