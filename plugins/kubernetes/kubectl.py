"""The API server as kubectl sees it, with the user's credentials and one request after the other: for commands of `fastdns`, not for the server."""

from __future__ import annotations

import json
import os
from typing import Any

from fastdns import control
from fastdns.plugins.kubernetes.api_server import ApiServerOptions
from fastdns.plugins.kubernetes.watch.client import Client
from fastdns.plugins.kubernetes.watch.connection import Api
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError

__all__ = ["Reader", "default_kubeconfig"]

#: Seconds for a reply.
TIMEOUT = 20.0


class Reader:
    """Objects of the API server, read by GET alone."""

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        """``kubeconfig`` and ``context`` are "" for those that kubectl takes; in a pod without a kubeconfig it is the pod's account. Raises ValueError."""
        kubeconfig = kubeconfig or default_kubeconfig()
        if not kubeconfig and "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ValueError("no credentials for the API server: neither -kubeconfig, $KUBECONFIG nor ~/.kube/config names a file, and this is no pod")
        try:
            self._api: Api = ApiServerOptions(kubeconfig=kubeconfig, context=context).api()
        except ApiConfigError as error:
            raise ValueError(f"no credentials for the API server: {error}") from None
        self._client = Client(self._api, ApiServerOptions().limits)

    def get(self, target: str) -> tuple[int, Any]:
        """Status and JSON of the reply to a request for a path with its query. Raises ValueError with a sentence."""
        try:
            status, body = control.loop().submit(self._exchange(target)).result(TIMEOUT)
        except TimeoutError:
            raise ValueError("the API server does not answer") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"the API server: {error}") from None
        try:
            return status, json.loads(body)
        except (ValueError, RecursionError):
            # An API group that is not there, or something before the API server, answers in text.
            if status != 200:
                return status, {"message": body[:200].decode("utf-8", "replace").strip()}
            raise ValueError("the API server answers with what is no JSON") from None

    async def _exchange(self, target: str) -> tuple[int, bytes]:
        status, body = await self._ask(target)
        if status == 401 and await self._api.refused():
            status, body = await self._ask(target)
        return status, body

    async def _ask(self, target: str) -> tuple[int, bytes]:
        await self._api.prepare()
        headers = ["Accept: application/json"]
        authorization = self._api.authorization()
        if authorization:
            headers.append(f"Authorization: {authorization}")
        return await self._client.exchange("GET", self._api.address.prefix + target, headers)


def default_kubeconfig() -> str:
    """The file that kubectl takes: the first of $KUBECONFIG that is there, else ~/.kube/config; "" where that is not there (in a pod)."""
    for path in os.environ.get("KUBECONFIG", "").split(":"):
        if path and os.path.exists(path):
            return path
    path = os.path.expanduser("~/.kube/config")
    return path if os.path.exists(path) else ""
