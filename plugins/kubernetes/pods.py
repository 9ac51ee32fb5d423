"""Pods by their labels, listed once with the user's credentials: for commands such as `fastdns top`, not for the server."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastdns.plugins.kubernetes.kubectl import Reader
from fastdns.plugins.kubernetes.watch.selectors import Selector

__all__ = ["addresses"]


def addresses(namespace: str, labels: str, kubeconfig: str = "", context: str = "") -> list[tuple[str, str]]:
    """Name and address of each running pod of a namespace with these labels, sorted. Raises ValueError with a sentence."""
    selector = Selector.parse(labels)
    reader = Reader(kubeconfig, context)
    status, found = reader.get(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?labelSelector={quote(str(selector))}")
    if status != 200:
        raise ValueError(f"the API server: {found.get('message', '') if isinstance(found, dict) else ''} (status {status})")
    return sorted((item["metadata"]["name"], item["status"]["podIP"]) for item in found["items"] if _runs(item))


def _runs(item: dict[str, Any]) -> bool:
    status = item.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") == "Running" and not item["metadata"].get("deletionTimestamp")
