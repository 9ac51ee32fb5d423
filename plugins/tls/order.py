"""One order of ACME (RFC 8555) in a process of its own, which ends with it: the libraries take 30 MB, and a CA that hangs holds nobody.

Standard input and output have JSON, an object a line. The first line of the input is the task (`Task` of manager.py). Lines of the output: ``account``
and ``challenges`` (for each, a line of the input says that it is saved, or that they are published), then ``certificate`` (key and chain, PEM) or
``error``. This file imports nothing of fastdns.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import socket
import ssl
import sys
import threading
from typing import Any

import requests
from acme import challenges, client, crypto_util, errors, messages
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from josepy.jwa import ES256
from josepy.jwk import JWKEC
from requests.adapters import HTTPAdapter

#: Seconds until the process ends, of one request, and until the CA has looked at the challenges, or has made the certificate.
TASK_SECONDS = 300
REQUEST_SECONDS = 30
CA_SECONDS = 90


class Trusting(HTTPAdapter):
    """HTTPS with an SSL context of our own, and no other certificates."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self.context, **options)

    def proxy_manager_for(self, proxy: Any, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self.context, **options)

    def cert_verify(self, *arguments: Any) -> None:
        """The context verifies."""


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    signal.alarm(TASK_SECONDS)
    task = json.loads(sys.stdin.readline())
    done = threading.Semaphore(0)
    threading.Thread(target=listen, args=(done,), daemon=True).start()
    try:
        say(certificate=obtain(task, done))
    except (requests.exceptions.RequestException, errors.TimeoutError) as error:
        say(error=str(innermost(error)) or "no answer in time", answered=False)
    except errors.ValidationError as error:
        say(error="; ".join(problems(error)), answered=True)
    except Exception as error:
        say(error=str(error) or type(error).__name__, answered=True)


def listen(done: threading.Semaphore) -> None:
    """The server that started this process ends it by closing the pipe, also when it is killed."""
    while sys.stdin.readline():
        done.release()
    os._exit(1)


def obtain(task: dict[str, Any], done: threading.Semaphore) -> str:
    """The key and the certificates. Raises requests' and acme's errors."""
    if task["resolver"]:
        resolve_by(task["resolver"])
    ca = account_of(task, done)
    key = pem_of(ec.generate_private_key(ec.SECP256R1()))
    order = ca.new_order(crypto_util.make_csr(key.encode("ascii"), task["domains"]))
    pending = [dns01(authorization.body) for authorization in order.authorizations if authorization.body.status == messages.STATUS_PENDING]
    if pending:
        values: dict[str, list[str]] = {}
        for name, challenge in pending:
            values.setdefault(name, []).append(challenge.chall.validation(ca.net.key))
        say(challenges=values)
        done.acquire()
        for _, challenge in pending:
            ca.answer_challenge(challenge, challenge.chall.response(ca.net.key))
    order = ca.poll_authorizations(order, deadline())
    order = ca.finalize_order(order, deadline())
    return key + str(order.fullchain_pem)


def deadline() -> datetime.datetime:
    """As acme wants it, without a zone."""
    return datetime.datetime.now() + datetime.timedelta(seconds=CA_SECONDS)


def dns01(authorization: messages.Authorization) -> tuple[str, messages.ChallengeBody]:
    """The name of the TXT record, and the challenge (RFC 8555 8.4). Raises errors.Error."""
    name = authorization.identifier.value
    for challenge in authorization.challenges:
        if isinstance(challenge.chall, challenges.DNS01):
            return f"_acme-challenge.{name}", challenge
    raise errors.Error(f"the CA offers no challenge of type dns-01 for {name}")


def account_of(task: dict[str, Any], done: threading.Semaphore) -> client.ClientV2:
    """A client with the account of the task's key, which is made where the CA has none. A new key is saved first: CAs limit how many accounts are made."""
    key = None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        key = serialization.load_pem_private_key(task["account"]["key"].encode(), None)
    known = isinstance(key, ec.EllipticCurvePrivateKey)
    if not known:
        key = ec.generate_private_key(ec.SECP256R1())
        say(account={"key": pem_of(key)})
        done.acquire()
    net = client.ClientNetwork(JWKEC(key=key), alg=ES256, user_agent=task["user_agent"], timeout=REQUEST_SECONDS)
    net.session.mount("https://", Trusting(context_of(task)))
    ca = client.ClientV2(client.ClientV2.get_directory(task["ca"], net), net)
    if known:
        try:
            ca.query_registration(messages.RegistrationResource(body=messages.Registration()))
            return ca
        except messages.Error as error:
            if error.code != "accountDoesNotExist":
                raise
    ca.new_account(messages.NewRegistration.from_data(email=task["email"] or None, terms_of_service_agreed=True))
    return ca


def pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode("ascii")


def context_of(task: dict[str, Any]) -> ssl.SSLContext:
    """Trusts the system's CAs, and those of ``ca_root``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, folder = task["store"]
    if file or folder:
        context.load_verify_locations(file or None, folder or None)
    if task["ca_root"]:
        context.load_verify_locations(task["ca_root"])
    return context


def resolve_by(resolver: str) -> None:
    """Have this process look up names at ``host:port``."""
    import dns.exception
    import dns.resolver

    host, _, port = resolver.rpartition(":")
    system = socket.getaddrinfo
    stub = dns.resolver.Resolver(configure=False)
    stub.nameservers = [str(entry[4][0]) for entry in system(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)]
    stub.port = int(port)

    def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            try:
                found = list(stub.resolve_name(host).addresses())
            except dns.exception.DNSException as error:
                raise socket.gaierror(socket.EAI_NONAME, str(error)) from None
            return [entry for address in found for entry in system(address, port, *arguments, **options)]
        return system(host, port, *arguments, **options)

    socket.getaddrinfo = look_up


def innermost(error: BaseException) -> object:
    """What stands behind the layers of an HTTP library: ``[Errno 111] Connection refused`` in place of a chain of names."""
    reason = next((part for part in (getattr(error, "reason", None), *error.args) if isinstance(part, BaseException)), error.__cause__)
    return error if reason is None else innermost(reason)


def problems(error: errors.ValidationError) -> list[str]:
    """What the CA says of each name."""
    found = []
    for authorization in error.failed_authzrs:
        name = authorization.body.identifier.value
        found += [f"{name}: {challenge.error.detail or challenge.error.typ}" for challenge in authorization.body.challenges if challenge.error is not None]
    return found


if __name__ == "__main__":
    main()
