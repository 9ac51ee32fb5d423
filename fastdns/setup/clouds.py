"""The clouds' own libraries, which only some directives need and not every installation has."""

from __future__ import annotations

import importlib
from types import ModuleType

from fastdns.corefile import CorefileError

__all__ = ["cloud_library"]


def cloud_library(module: str, wanted_by: str) -> ModuleType:
    """Import a module such as ``boto3`` or ``azure.identity``. Raises CorefileError, which says where its package is."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.replace(".", "-")
        raise CorefileError(
            f"{wanted_by} needs the Python package {package}: the image has it in its tag -clouds, and pip installs it with fastdns[clouds]"
        ) from None
