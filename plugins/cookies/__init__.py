"""cookies: server cookies (RFC 7873, RFC 9018), by which clients show that they have their address."""

from __future__ import annotations

from fastdns.plugins.cookies._cookies import CookiesHandler
from fastdns.plugins.cookies.secrets import own_secret, read_secrets
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.tls.renewal import Renewal, State, states_of

__all__ = ["Cookies", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True, explain={"query answered": "BADCOOKIE"})


class Cookies:
    """The handler of a server block, and the watch over its file of secrets."""

    def __init__(self, path: str, require: bool) -> None:
        """``path`` "": the process's secret. OSError, ValueError for its file."""
        self._path = path
        self._states: list[State] = states_of([path]) if path else []
        self._renewal: Renewal | None = None
        self.handler = CookiesHandler("cookies", read_secrets(path) if path else [own_secret()], require)

    def watch(self) -> None:
        if self._path:
            self._renewal = Renewal(self, [self._path], self._states, "plugin/cookies")

    def renew(self) -> None:
        """Use what the file has now. OSError, ValueError: everything stays as it was."""
        self.handler.use(read_secrets(self._path))

    def end(self) -> None:
        if self._renewal is not None:
            self._renewal.end()


def setup(controller: Controller) -> None:
    """Add the block's handler."""
    path, require = parse(controller)
    try:
        cookies = Cookies(path, require)
    except OSError as error:
        raise controller.err(f"unable to read the secret: {error}") from None
    except ValueError as error:
        raise controller.err(str(error)) from None
    controller.config.add_handler(cookies.handler)
    controller.on_started(cookies.watch)
    controller.on_shutdown(cookies.end)


def parse(controller: Controller) -> tuple[str, bool]:
    """The path of the file of secrets, or "", and whether a valid cookie is required. Raises CorefileError."""
    path, require = "", False
    while controller.once():
        controller.args(0, 0)
        while controller.next_block():
            word = controller.val()
            if word == "secret":
                path = controller.path(controller.one_arg())
            elif word == "require":
                controller.no_args()
                require = True
            else:
                raise controller.err(f"unknown property '{word}'")
    return path, require
