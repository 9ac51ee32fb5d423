"""A DNS server for clusters: CoreDNS's Corefile and answers, from native code that takes no GIL.

``ARCHITECTURE.md`` describes its packages. Plugin authors import :mod:`fastdns.plugin` and
:mod:`fastdns.testing`; native plugins ``cimport`` from the ``.pxd`` files shipped beside the extensions.
"""

from __future__ import annotations

import os

__all__ = ["COREDNS_VERSION", "__version__", "get_include"]

__version__ = "0.1.0"

#: The CoreDNS release whose observable behaviour this version matches.
COREDNS_VERSION = "1.14.7"


def get_include() -> str:
    """Return the folder with the C headers that our ``.pxd`` files name, for a third party's ``include_dirs``."""
    return os.path.dirname(os.path.abspath(__file__))
