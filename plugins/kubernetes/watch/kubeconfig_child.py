"""Resolves a kubeconfig with the `kubernetes` package and prints what is needed as JSON; run as a process of its own.

The package costs 40 MB and most of a second, and exec plugins run programs: a short-lived child keeps both out of the server. Arguments: FILE and
a context or "". Standard output is a pipe to the server; nothing is written to disk that the package does not write itself (temporary files, deleted
at the end).
"""

from __future__ import annotations

import base64
import datetime
import json
import logging
import os
import sys
from typing import Any


def read(path: str | None) -> str:
    """A PEM file's text."""
    if not path:
        return ""
    with open(path) as file:
        return file.read()


def expiry(loader: Any, token: str) -> float | None:
    """When the credentials end, in Unix time: as an exec plugin said, or as a JSON web token says of itself."""
    said = getattr(loader, "expiry", None)
    if isinstance(said, str):
        said = datetime.datetime.fromisoformat(said.replace("Z", "+00:00"))
    if isinstance(said, datetime.datetime):
        if said.tzinfo is None:
            said = said.replace(tzinfo=datetime.UTC)
        return said.timestamp()
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError):
        return None


def resolve(path: str, context: str) -> dict[str, Any]:
    """Server, CA and credentials of a context."""
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    said: list[str] = []
    logging.getLogger().addHandler(Listener(said))
    loader: Any = kube_config._get_kube_config_loader(  # type: ignore[no-untyped-call]
        filename=path, active_context=context or None, persist_config=False
    )
    configuration = Configuration()
    loader.load_and_set(configuration)
    user = loader._user
    wanted = {name for name in ("exec", "auth-provider", "tokenFile") if user is not None and name in user}
    # The key's name changed with version 37 of the package.
    keys = configuration.api_key or {}
    token = keys.get("BearerToken") or keys.get("authorization", "")
    if wanted and not token and not configuration.cert_file:
        raise RuntimeError("; ".join(said) or "the credential plugin gave no credentials")
    folder = os.path.dirname(os.path.abspath(path))
    named = [loader._cluster.safe_get("certificate-authority")]
    if user is not None:
        named += [user.safe_get(name) for name in ("client-certificate", "client-key", "tokenFile")]
    return {
        "server": configuration.host,
        "authorization": token,
        "expires": expiry(loader, token.partition(" ")[2]),
        "verify": bool(configuration.verify_ssl),
        "server_name": getattr(configuration, "tls_server_name", None) or "",
        "ca": read(configuration.ssl_ca_cert),
        "cert": read(configuration.cert_file),
        "key": read(configuration.key_file),
        "files": [os.path.join(folder, value) for value in named if value],
        "renewable": bool(wanted),
    }


class Listener(logging.Handler):
    """Keeps the errors that the package only logs."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def main() -> int:
    path, context = sys.argv[1], sys.argv[2]
    try:
        reply = resolve(path, context)
    except Exception as error:
        kind = type(error).__name__
        print(json.dumps({"error": f"{error}" or kind, "config": kind == "ConfigException"}))
        return 1
    print(json.dumps(reply))
    return 0


if __name__ == "__main__":
    sys.exit(main())
