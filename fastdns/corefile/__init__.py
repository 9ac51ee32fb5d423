"""Corefile text to server blocks.

`parse` gives blocks of tokens (`lexer`, `parser`, `imports`, `environment`); a plugin's set-up reads its
own through a `Controller` and configures the block's `Config`. Errors are `CorefileError`.
"""

from __future__ import annotations

from fastdns.corefile.config import Config, Hooks
from fastdns.corefile.controller import Controller
from fastdns.corefile.errors import CorefileError
from fastdns.corefile.parser import ServerBlock, parse

__all__ = ["Config", "Controller", "CorefileError", "Hooks", "ServerBlock", "parse"]
