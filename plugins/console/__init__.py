"""console: a page that shows what the server does, and the same as JSON for `fastdns top`."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import Any

from fastdns.corefile import CorefileError
from fastdns.corefile.address import split_address
from fastdns.httpd.endpoint import Endpoint, page_address
from fastdns.plugins.console.access import TOKEN_LEAST, Access, Token
from fastdns.plugins.console.sampling import samples
from fastdns.plugins.console.web import Pages
from fastdns.plugins.prometheus import Recorder, show
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, side_effects=True)

ADDRESS = "localhost:8053"


@dataclass
class Settings:
    """The directive's arguments. Those of an address are the same in all blocks."""

    address: str = ADDRESS
    token_file: str = ""
    token_variable: str = ""
    tls_file: str = ""
    hosts: tuple[str, ...] = ()


def setup(controller: Controller) -> Recorder | None:
    """``console [ADDRESS] { token FILE; token_env NAME; tls CONFIGFILE; host NAME... }``"""
    settings = parse(controller)
    serve(controller, settings)
    if controller.config.handler("prometheus") is not None:
        return None
    # Queries are counted once, by whoever is there.
    recorder = Recorder("console")
    controller.on_complete(lambda: show(recorder, controller.config))
    return recorder


def serve(controller: Controller, settings: Settings) -> None:
    """Open the pages of an address, once for all blocks that name it. Raises CorefileError."""
    standing: dict[str, Settings] = controller.values.setdefault("console", {})
    if settings.address in standing:
        if standing[settings.address] != settings:
            raise controller.err(f"the console at {settings.address} has other options in another block")
        return
    standing[settings.address] = settings
    tls: Any = None
    if settings.tls_file:
        from fastdns.plugins.prometheus.web import load

        tls = load(settings.tls_file)
        if tls is None:
            raise controller.err(f"{settings.tls_file} has no tls_server_config")
        controller.on_started(lambda: tls.keep_renewed("plugin/console"))
    mutual = tls is not None and tls.mutual
    token = token_of(controller, settings)
    if token is None and not mutual and not is_loopback(settings.address):
        text = f"{settings.address} is reached from other machines: it needs a token, or tls with client_auth_type RequireAndVerifyClientCert"
        raise controller.err(text)
    pages = Pages(Access(token, settings.hosts), controller.process)
    for path, page in pages.paths().items():
        Endpoint(settings.address, path, page, tls).follow(controller)
    controller.on_startup(samples.begin)
    controller.on_shutdown(samples.end)


def token_of(controller: Controller, settings: Settings) -> Token | None:
    """The token of a file or an environment variable, if there is one. Raises CorefileError, which does not say what it is."""
    if settings.token_variable:
        text = os.environ.get(settings.token_variable, "")
        if not text:
            raise controller.err(f"the environment has no variable {settings.token_variable}")
        token = Token(text)
    elif settings.token_file:
        try:
            token = Token.of_file(settings.token_file)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise controller.err(f"open {settings.token_file}: {reason.lower()}") from None
        controller.on_started(token.keep_renewed)
    else:
        return None
    if len(token.octets) < TOKEN_LEAST:
        raise controller.err(f"a token has at least {TOKEN_LEAST} characters")
    return token


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address. Names but localhost count as others, however they resolve."""
    host = split_address(address)[0]
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def parse(controller: Controller) -> Settings:
    """The settings. Raises CorefileError, ValueError."""
    settings = Settings()
    while controller.once():
        settings.address = page_address(controller, settings.address)
        while controller.next_block():
            option = controller.val()
            if option == "token":
                settings.token_file = controller.path(controller.one_arg())
            elif option == "token_env":
                settings.token_variable = controller.one_arg()
            elif option == "tls":
                settings.tls_file = controller.path(controller.one_arg())
                if not os.path.exists(settings.tls_file):
                    raise CorefileError(f"TLS config file {settings.tls_file}: no such file or directory")
            elif option == "host":
                settings.hosts += tuple(name.lower().rstrip(".") for name in controller.args(1))
            else:
                raise controller.err(f"unknown property '{option}'")
    if settings.token_file and settings.token_variable:
        raise controller.err("token and token_env exclude each other")
    return settings
