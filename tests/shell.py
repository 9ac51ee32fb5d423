"""Scripts that a server or a test starts."""

from __future__ import annotations

import os

__all__ = ["SHEBANG"]

#: First line of a script. A shell does not start with ThreadSanitizer's library, which env(1) takes away.
SHEBANG = "#!/usr/bin/env -S -u LD_PRELOAD sh" if "FASTDNS_SANITIZED" in os.environ else "#!/bin/sh"
