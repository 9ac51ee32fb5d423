"""Placeholders such as ``{port}`` in the texts of a case, and what they stand for in one run."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from tests.conformance.errors import Problem
from tests.server import free_port

__all__ = ["Placeholders"]

PLACE = re.compile(r"(\\?)\{((?:port|metrics_port|health_port|ready_port|extra_port|dead_port|upstream|upstream_port|addr)\d*|dir|certs|apiserver|etcd)\}")


class Placeholders:
    """Ports and addresses are chosen when they are first asked for; ``dir``, ``certs``, ``apiserver`` and ``etcd`` are set by the run."""

    def __init__(self, upstreams: Mapping[int, dict[str, Any]]) -> None:
        self.upstreams = upstreams
        self.values: dict[str, str | int] = {}

    def __setitem__(self, name: str, value: str | int) -> None:
        self.values[name] = value

    def fill(self, text: str) -> str:
        """The text with values in place of names; ``\\{port}`` becomes a literal ``{port}``. Raises Problem."""
        return PLACE.sub(lambda found: found[0][1:] if found[1] else str(self.get(found[2])), text)

    def fill_all(self, value: Any) -> Any:
        """The same for all texts in lists and mappings."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, list):
            return [self.fill_all(item) for item in value]
        if isinstance(value, dict):
            return {key: self.fill_all(item) for key, item in value.items()}
        return value

    def restore(self, text: str) -> str:
        """The text with names in place of port numbers."""
        for name, value in self.values.items():
            if isinstance(value, int):
                text = re.sub(rf"(?<=:){value}(?!\d)", f"{{{name}}}", text)
        return text

    def port(self, name: str) -> int:
        return int(self.get(name))

    def get(self, name: str) -> str | int:
        """Raises Problem if the case does not start what the name stands for."""
        if name not in self.values:
            found = re.fullmatch(r"upstream(?:_port)?(\d*)", name)
            if found is not None:
                self._choose_upstream(int(found[1] or "1"))
            elif name.startswith("addr"):
                self.values[name] = ".".join(["127", *(str(random.randrange(2, 250)) for _ in range(3))])
            elif name in ("apiserver", "etcd"):
                raise Problem(f"the case has no {name}")
            else:
                self.values[name] = free_port()
        return self.values[name]

    def _choose_upstream(self, number: int) -> None:
        """Address and port of a scripted upstream; without a number the first one is meant."""
        described = self.upstreams.get(number) or {}
        host = self.fill(str(described.get("host", "127.0.0.1")))
        port = int(self.fill(str(described["port"]))) if "port" in described else free_port()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for suffix in (str(number), "") if number == 1 else (str(number),):
            self.values[f"upstream_port{suffix}"] = port
            self.values[f"upstream{suffix}"] = address
