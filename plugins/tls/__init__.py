"""tls: the certificate of a block's encrypted transports."""

from __future__ import annotations

import contextlib
import os

from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted, system_error
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log
from fastdns.tls.context import CLIENT_AUTH, AuthorityError
from fastdns.tls.credentials import Credentials

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

log = Log("plugin/tls")


def setup(controller: Controller) -> None:
    """``tls CERT KEY [CA] { client_auth KIND; keylog FILE }`` or ``tls { acme DOMAIN… }``; of several the last one has its way."""
    while controller.next():
        arguments = controller.remaining_args()
        if not arguments:
            controller.config.tls = _by_acme(controller)
            continue
        if not 2 <= len(arguments) <= 3:
            error = controller.arg_err()
            raise CorefileError(f"plugin/tls: plugin/tls: {error}", error.file, error.line)
        client_auth, keylog = "nocert", ""
        while controller.next_block():
            option = controller.val()
            if option == "client_auth":
                client_auth = controller.one_arg()
                if client_auth not in CLIENT_AUTH:
                    raise controller.err(f"unknown authentication type '{client_auth}'")
            elif option == "keylog":
                keylog = controller.path(controller.one_arg(), reads=False)
            else:
                raise controller.err(f"unknown option '{option}'")
        controller.config.tls = _credentials(controller, [controller.path(name) for name in arguments], client_auth, keylog)


def _credentials(controller: Controller, files: list[str], client_auth: str, keylog: str) -> Credentials:
    """Files that can be used. Raises CorefileError."""
    certificate, key, authority = (*files, "")[:3]
    for path, what in ((certificate, "certificate"), (key, "key")):
        if b"-----BEGIN " not in _read(path, "could not load TLS cert: "):
            raise CorefileError(f"could not load TLS cert: tls: failed to find any PEM data in {what} input")
    if authority and b"-----BEGIN CERTIFICATE-----" not in _read(authority, f"error reading {authority}: "):
        raise CorefileError("could not read root certs")
    found = Credentials(certificate, key, authority, client_auth)
    try:
        found.server(("dot",), strict=False)
    except AuthorityError:
        raise CorefileError("could not read root certs") from None
    except ValueError as error:
        raise CorefileError(f"could not load TLS cert: tls: {error}") from None
    if not keylog:
        return found
    path = os.path.abspath(keylog)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise controller.err(f"unable to write TLS Key Log to {quoted(path)}: {system_error(error, path=path)}") from None
    log.warning(f"Writing TLS Key Log to {quoted(path)}")
    return Credentials(certificate, key, authority, client_auth, path)


def _read(path: str, prefix: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CorefileError(f"{prefix}{system_error(error, path=path)}") from None


def _by_acme(controller: Controller) -> Credentials:
    """Files that ACME will bring, and the answers to its challenges in every block. Raises CorefileError."""
    from fastdns.plugins.tls import manager
    from fastdns.plugins.tls._challenge import ChallengeHandler
    from fastdns.plugins.tls.copied import CopiedCredentials, copy_of
    from fastdns.plugins.tls.options import claim, parse
    from fastdns.plugins.tls.storage import Storage
    from fastdns.plugins.tls.storage_thread import StorageHangs, thread_of

    owners = controller.values.setdefault("tls/acme", {})
    first = not owners
    options = claim(parse(controller), owners)
    for config in controller.configs if first else ():
        # In front of the cache: a denial that somebody asked for before must not outlast the challenge.
        handler = ChallengeHandler("tls", manager.CHALLENGES.index)
        handler.set_traits(TRAITS)
        config.add_handler_before("cache", handler)
    held: list[manager.Manager] = []
    controller.on_startup(lambda: held.append(manager.hold(options)))
    controller.on_started(lambda: held[0].begin())
    controller.on_shutdown(lambda: manager.release(held.pop()))
    thread = thread_of(options.storage)
    copy = copy_of(Storage(options).certificate, thread)
    with contextlib.suppress(StorageHangs):  # what was read before stays in use, and what is there is read once it answers
        thread.call(copy.look)
    return CopiedCredentials(copy)
