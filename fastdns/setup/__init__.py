"""The API of a plugin's set-up: the controller, its server block, the hooks of a configuration, the registry of directives."""

from __future__ import annotations

from fastdns.setup.config import Config, Hooks
from fastdns.setup.controller import Controller

__all__ = ["Config", "Controller", "Hooks"]
