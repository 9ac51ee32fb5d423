"""Corefile text to server blocks: `parse` gives blocks of tokens (`lexer`, `parser`, `imports`, `environment`). Errors are `CorefileError`."""

from __future__ import annotations

from fastdns.corefile.errors import CorefileError
from fastdns.corefile.parser import ServerBlock, parse

__all__ = ["CorefileError", "ServerBlock", "parse"]
