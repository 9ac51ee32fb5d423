"""Pods by their labels, listed once with the user's credentials: for commands such as `fastdns top`, not for the server."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from fastdns import control
from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.watch.client import Client
from fastdns.plugins.kubernetes.watch.connection import Api
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.watch.selectors import Selector

__all__ = ["addresses"]

#: Seconds for the list.
TIMEOUT = 20.0


def addresses(namespace: str, labels: str, kubeconfig: str = "", context: str = "") -> list[tuple[str, str]]:
    """Name and address of each running pod of a namespace with these labels, sorted. Raises ValueError with a sentence."""
    selector = Selector.parse(labels)
    try:
        api = ApiServerOptions(kubeconfig=kubeconfig or default_kubeconfig(), context=context).api()
    except ApiConfigError as error:
        raise ValueError(f"no credentials for the API server: {error}") from None
    target = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods?labelSelector={quote(str(selector))}"
    try:
        status, body = control.loop().submit(_list(api, target)).result(TIMEOUT)
        found = json.loads(body)
    except TimeoutError:
        raise ValueError("the API server does not answer") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"the API server: {error}") from None
    if status != 200:
        raise ValueError(f"the API server: {found.get('message', '') if isinstance(found, dict) else ''} (status {status})")
    return sorted((item["metadata"]["name"], item["status"]["podIP"]) for item in found["items"] if _runs(item))


def default_kubeconfig() -> str:
    """The file that kubectl takes: the first of $KUBECONFIG that is there, else ~/.kube/config; "" where that is not there (in a pod)."""
    for path in os.environ.get("KUBECONFIG", "").split(":"):
        if path and os.path.exists(path):
            return path
    path = os.path.expanduser("~/.kube/config")
    return path if os.path.exists(path) else ""


async def _list(api: Api, target: str) -> tuple[int, bytes]:
    await api.prepare()
    client = Client(api, ApiServerOptions().limits)
    headers = ["Accept: application/json"]
    authorization = api.authorization()
    if authorization:
        headers.append(f"Authorization: {authorization}")
    try:
        return await client.exchange("GET", api.address.prefix + target, headers)
    finally:
        client.close()


def _runs(item: dict[str, Any]) -> bool:
    status = item.get("status", {})
    return bool(status.get("podIP")) and status.get("phase") == "Running" and not item["metadata"].get("deletionTimestamp")
