"""rrl: limits the rates of replies, and of requests, by the client's network, pod or namespace."""

from __future__ import annotations

from fastdns.corefile import CorefileError
from fastdns.plugins.rrl.settings import BY_NETWORK, BY_POD, parse
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

__all__ = ["setup"]

TRAITS = Traits(
    answers=False,
    runs_in_check=True,
    explain={"query dropped": "rate of requests exceeded", "reply dropped": "rate of replies exceeded"},
)


def setup(controller: Controller) -> None:
    """Add the block's handler."""
    settings = parse(controller)
    from fastdns.plugins.rrl._rrl import RrlHandler

    handler = RrlHandler("rrl", settings)
    config = controller.config
    config.add_handler(handler)

    def connect_cookies() -> None:
        """Has *cookies*, which comes later in the chain, check the cookies of datagrams."""
        cookies = config.handler("cookies")
        if cookies is not None:
            handler.use_cookies(cookies)

    if settings.rates["request"]:
        controller.on_complete(connect_cookies)
    if settings.by != BY_NETWORK:
        place = controller.place()

        def connect() -> None:
            """Has a plugin of the block say which pod a client is."""
            namespace = config.client_label("client-namespace")
            if namespace is None:
                raise CorefileError(
                    f"{place.file}:{place.line} - Error during parsing: 'by {settings.by}' needs a plugin in the server block that knows "
                    "which pod asks: kubernetes with 'pods verified'",
                    place.file,
                    place.line,
                )
            handler.use(namespace, config.client_label("client-pod-name") if settings.by == BY_POD else None)

        controller.on_complete(connect)
