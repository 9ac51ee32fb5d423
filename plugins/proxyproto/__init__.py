"""proxyproto: takes clients' addresses from PROXY headers."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.corefile.address import network_of
from fastdns.plugins.proxyproto._tlvs import TlvPublisher
from fastdns.setup import Controller
from fastdns.setup.config import ProxySettings
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(answers=False, runs_in_check=True)

RULES = ("use", "ignore", "reject", "skip")

#: Octets before the IPv4 address in an IPv4-mapped one.
MAPPED = bytes(10) + b"\xff\xff"


def setup(controller: Controller) -> None:
    """``proxyproto { allow CIDR... ; default use|ignore|reject|skip ; udp_session_tracking DURATION [MAX] ; tlv_metadata }``"""
    if controller.config.proxy is not None:
        raise CorefileError("proxy protocol already configured for this server instance")
    settings = ProxySettings()
    while controller.next():
        if controller.remaining_args():
            raise controller.arg_err()
        while controller.next_block():
            _option(controller, controller.val(), settings)
    controller.config.proxy = settings
    if settings.tlvs:
        controller.config.add_handler(TlvPublisher())


def _option(controller: Controller, name: str, settings: ProxySettings) -> None:
    arguments = controller.remaining_args()
    if name == "allow":
        settings.networks += [_network(controller, text) for text in arguments]
    elif name == "default":
        if len(arguments) != 1 or arguments[0].lower() not in RULES:
            raise controller.arg_err()
        settings.default = arguments[0].lower()
    elif name == "udp_session_tracking":
        if not 1 <= len(arguments) <= 2:
            raise controller.arg_err()
        try:
            settings.session_lifetime = controller.duration(arguments[0])
        except ValueError as error:
            raise _invalid(controller, f'udp_session_tracking: invalid duration "{arguments[0]}": {error}') from None
        if len(arguments) == 2:
            settings.sessions = _sessions(controller, arguments[1])
    elif name == "tlv_metadata":
        if arguments:
            raise controller.arg_err()
        settings.tlvs = True
    else:
        raise controller.err(f"unknown option '{name}'")


def _network(controller: Controller, text: str) -> tuple[bytes, int]:
    network = network_of(text)
    if network is None:
        raise _invalid(controller, f"{text}: invalid CIDR address: {text}")
    octets, bits = network
    if octets.startswith(MAPPED) and bits >= 96:
        return octets[12:], bits - 96
    return network


def _sessions(controller: Controller, text: str) -> int:
    try:
        number = controller.integer(text)
    except ValueError:
        number = 0
    if number < 1:
        raise _invalid(controller, f'udp_session_tracking: invalid max sessions "{text}": must be a positive integer')
    return number


def _invalid(controller: Controller, text: str) -> CorefileError:
    """Without file and line in the text, as in CoreDNS."""
    return CorefileError(text, controller.file(), controller.line())
