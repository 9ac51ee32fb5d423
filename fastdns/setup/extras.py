"""Libraries that only some directives need and not every installation has: extras of pyproject.toml. The image has them in its tag -clouds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastdns.corefile import CorefileError

__all__ = ["extra_package"]


@contextmanager
def extra_package(package: str, wanted_by: str, extra: str = "clouds") -> Iterator[None]:
    """Around imports of a package such as ``boto3`` or ``azure-identity``. Raises CorefileError, which says where it is."""
    try:
        yield
    except ImportError:
        raise CorefileError(
            f"{wanted_by} needs the Python package {package}: the image has it in its tag -clouds, and pip installs it with fastdns[{extra}]"
        ) from None
