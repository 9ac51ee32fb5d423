"""`auth-provider` of a kubeconfig's user: oidc (OpenID Connect Core 1.0, section 12, and RFC 6749, section 6), and what is left of gcp.

New tokens stay in memory: the kubeconfig is not written.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode, urlsplit

from fastdns.plugins.kubernetes.decode.stream import StreamError
from fastdns.plugins.kubernetes.watch.address import Address
from fastdns.plugins.kubernetes.watch.client import Client
from fastdns.plugins.kubernetes.watch.connection import Api, make_context
from fastdns.plugins.kubernetes.watch.exec_plugin import Credential, bearer, run, unix_time
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError, Limits

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from fastdns.plugins.kubernetes.watch.clientcmd import User

#: Seconds before its end in which an ID token is not used any more.
LEEWAY = 10.0
#: Characters of a reply that an error message shows.
SHOWN = 80

#: What client-go says of the providers that it no longer has.
REMOVED = {
    "gcp": 'The gcp auth plugin has been removed. Please use the "gke-gcloud-auth-plugin" kubectl/client-go credential plugin instead.'
    " See https://cloud.google.com/blog/products/containers-kubernetes/kubectl-auth-changes-in-gke for further details",
    "azure": "The azure auth plugin has been removed. Please use the https://github.com/Azure/kubelogin kubectl/client-go credential plugin instead."
    " See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins for further details",
}


def fetcher(user: User, folder: str) -> Callable[[], Awaitable[Credential]]:
    """What gets the credential of a user's auth-provider. ApiConfigError for a provider that there is not."""
    name, config = user.auth_provider, user.auth_provider_config
    if name == "oidc":
        return OpenId(config).credential
    if name == "gcp" and (config.get("access-token") or config.get("cmd-path")):
        return Gcp(config, folder).credential
    raise ApiConfigError(REMOVED.get(name) or f'no Auth Provider found for name "{name}"')


class Issuer(Api):
    """A server of an identity provider."""

    def __init__(self, url: str, ca: str) -> None:
        """``ca`` in PEM, "" for the system's. OSError for what is no URL."""
        try:
            self.address = Address.parse(url)
        except ApiConfigError as error:
            raise OSError(f"oidc: {error}") from None
        self.ca = ca

    def context(self) -> ssl.SSLContext | None:
        return make_context(ca_data=self.ca) if self.address.tls else None


async def exchange(url: str, ca: str, method: str, headers: list[str], body: bytes = b"") -> tuple[int, bytes]:
    """One request on a connection of its own: status and body of the reply. OSError."""
    client = Client(Issuer(url, ca), Limits())
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        return await client.exchange(method, target, headers, body)
    except StreamError as error:
        raise OSError(f"{method} {url}: {error}") from None
    finally:
        client.close()


def expiry(id_token: str) -> float:
    """When a JSON web token ends, in Unix time (RFC 7519, section 4.1.4); 0 where it does not say. OSError for what is none."""
    parts = id_token.split(".")
    if len(parts) != 3:
        raise OSError("ID Token is not a valid JWT")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims.get("exp", 0))
    except (AttributeError, ValueError, TypeError, RecursionError) as error:
        raise OSError(f"ID Token is not a valid JWT: {error}") from None


class OpenId:
    """An ID token, and the refresh token that gets the next one."""

    def __init__(self, config: dict[str, str]) -> None:
        """ApiConfigError for a configuration that lacks what each use needs."""
        for key in ("idp-issuer-url", "client-id"):
            if not config.get(key):
                raise ApiConfigError(f"Must provide {key}")
        self.config = config
        self.id_token = config.get("id-token", "")
        self.refresh_token = config.get("refresh-token", "")

    async def credential(self) -> Credential:
        """The ID token, a new one when it ends soon. OSError."""
        if self.id_token:
            ends = expiry(self.id_token)
            if not ends or time.time() + LEEWAY < ends:
                token, self.id_token = self.id_token, ""  # asked for once more, it has ended or was refused
                return Credential(bearer(token), expires=ends or None)
        if not self.refresh_token:
            raise OSError("No valid id-token, and cannot refresh without refresh-token")
        ca = self._ca()
        reply = await self._refresh(await self._token_endpoint(ca), ca)
        found = reply.get("id_token")
        if not isinstance(found, str) or not found:
            raise OSError("token response did not contain an id_token")
        if isinstance(reply.get("refresh_token"), str) and reply["refresh_token"]:
            self.refresh_token = reply["refresh_token"]
        return Credential(bearer(found), expires=expiry(found) or None)

    def _ca(self) -> str:
        data, path = self.config.get("idp-certificate-authority-data"), self.config.get("idp-certificate-authority")
        try:
            if data:
                return base64.b64decode(data).decode("ascii")
            if path:
                with open(path, encoding="ascii") as file:
                    return file.read()
        except (OSError, ValueError) as error:
            raise OSError(f"oidc: idp-certificate-authority: {error}") from None
        return ""

    async def _token_endpoint(self, ca: str) -> str:
        """From the provider's metadata (OpenID Connect Discovery 1.0, section 4)."""
        url = self.config["idp-issuer-url"].rstrip("/") + "/.well-known/openid-configuration"
        status, body = await exchange(url, ca, "GET", ["Accept: application/json"])
        if status != 200:
            raise OSError(f"oidc: failed to query metadata endpoint {status}: {body[:SHOWN]!r}")
        endpoint = _object(body, "provider discovery object").get("token_endpoint")
        if not isinstance(endpoint, str) or not endpoint:
            raise OSError("oidc: discovery object doesn't contain a token_endpoint")
        return endpoint

    async def _refresh(self, endpoint: str, ca: str) -> dict[str, Any]:
        """Ask with the client's password in the header, else in the body: servers take one or the other (RFC 6749, section 2.3.1)."""
        form = {"grant_type": "refresh_token", "refresh_token": self.refresh_token}
        client, secret = self.config["client-id"], self.config.get("client-secret", "")
        basic = base64.b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
        headers = ["Accept: application/json", "Content-Type: application/x-www-form-urlencoded"]
        status, body = await exchange(endpoint, ca, "POST", [*headers, f"Authorization: Basic {basic}"], urlencode(form).encode())
        if status in (400, 401):
            form |= {"client_id": client} | ({"client_secret": secret} if secret else {})
            status, body = await exchange(endpoint, ca, "POST", headers, urlencode(form).encode())
        if status != 200:
            raise OSError(f"failed to refresh token: {status}: {body[:SHOWN]!r}")
        return _object(body, "token response")


def _object(body: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise OSError(f"failed to decode {name}: {error}") from None
    if not isinstance(found, dict):
        raise OSError(f"failed to decode {name}: no object")
    return found


class Gcp:
    """The access token that the file has, then those of `cmd-path`."""

    def __init__(self, config: dict[str, str], folder: str) -> None:
        self.config = config
        self.folder = folder
        self.used = False

    async def credential(self) -> Credential:
        """OSError."""
        token, text = self.config.get("access-token", ""), self.config.get("expiry", "")
        if token and not self.used:
            try:
                ends = unix_time(text) if text else None
            except ValueError as error:
                raise OSError(f"gcp: expiry: {error}") from None
            if ends is None or time.time() + LEEWAY < ends:
                self.used = True
                return Credential(bearer(token), expires=ends)
        command = self.config.get("cmd-path", "")
        if not command:
            raise OSError(REMOVED["gcp"])
        return await self._run([command, *self.config["cmd-args"].split()] if "cmd-args" in self.config else shlex.split(command))

    async def _run(self, words: list[str]) -> Credential:
        printed = _object(await run(words, dict(os.environ), self.folder), "output of cmd-path")
        try:
            found = printed["credential"]
            return Credential(bearer(found["access_token"]), expires=unix_time(found["token_expiry"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise OSError(f"gcp: output of cmd-path: {error!r}") from None
