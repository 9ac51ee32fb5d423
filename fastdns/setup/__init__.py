"""What a plugin's set-up sees: the controller, its server block, the hooks of a configuration, the directives."""

from __future__ import annotations

from fastdns.setup.config import Config, Hooks
from fastdns.setup.controller import Controller

__all__ = ["Config", "Controller", "Hooks"]
