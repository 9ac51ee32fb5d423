"""Where messages go to, or where collectors come to."""

from __future__ import annotations

import os
import socket
import stat
from typing import NamedTuple
from urllib.parse import urlsplit

from fastdns.corefile.address import join_host_port, split_address

__all__ = ["BACKLOG", "Endpoint", "describe"]

BACKLOG = 16


class Endpoint(NamedTuple):
    """``protocol`` is ``unix``, ``tcp`` or ``tls``; ``place`` a path or ``host:port``."""

    protocol: str
    place: str

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """``tcp://HOST:PORT``, ``tls://HOST:PORT``, ``unix:///PATH`` or a path. Raises ValueError for what is no URL."""
        scheme, separator, _ = text.partition("://")
        if separator and scheme in ("tcp", "tls"):
            return cls(scheme, urlsplit(text).netloc.rpartition("@")[2])
        return cls("unix", text.removeprefix("unix://"))

    @property
    def host(self) -> str:
        return split_address(self.place)[0]

    @property
    def network(self) -> str:
        """As Go calls it."""
        return "unix" if self.protocol == "unix" else "tcp"

    def connect(self, seconds: float) -> socket.socket:
        """Raises OSError as operators know it."""
        try:
            if self.protocol == "unix":
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(seconds)
                try:
                    connection.connect(self.place)
                except BaseException:
                    connection.close()
                    raise
                return connection
            host, port = split_address(self.place)
            return socket.create_connection((host or "localhost", int(port)), seconds)
        except TimeoutError:
            raise OSError(f"dial {self.network} {self.place}: i/o timeout") from None
        except ValueError as error:
            raise OSError(f"dial {self.network}: address {self.place}: {error}") from None
        except socket.gaierror as error:
            raise OSError(f"dial {self.network}: lookup {self.host}: {error.strerror}") from None
        except OSError as error:
            raise OSError(f"dial {self.network} {self.place}: connect: {describe(error)}") from None

    def listen(self) -> socket.socket:
        """Takes the address over from whoever of us listens there. Raises OSError."""
        try:
            return self._listen_unix() if self.protocol == "unix" else self._listen_tcp()
        except ValueError as error:
            raise OSError(f"listen {self.network}: address {self.place}: {error}") from None
        except socket.gaierror as error:
            raise OSError(f"listen {self.network}: lookup {self.host}: {error.strerror}") from None
        except OSError as error:
            raise OSError(f"listen {self.network} {self.place}: bind: {describe(error)}") from None

    def _listen_tcp(self) -> socket.socket:
        host, port = split_address(self.place)
        dual = not host and socket.has_dualstack_ipv6()
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0] if host else socket.AF_INET6 if dual else socket.AF_INET
        return socket.create_server((host, int(port)), family=family, backlog=BACKLOG, reuse_port=True, dualstack_ipv6=dual)

    def _listen_unix(self) -> socket.socket:
        """Under another name first: who connects meanwhile meets the one or the other, and what a crash left does not block."""
        if os.path.lexists(self.place) and not stat.S_ISSOCK(os.lstat(self.place).st_mode):
            raise OSError("address already in use")
        new = f"{self.place}.{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if os.path.lexists(new):
                os.unlink(new)
            listener.bind(new)
            listener.listen(BACKLOG)
            os.rename(new, self.place)
        except BaseException:
            listener.close()
            raise
        return listener

    def __str__(self) -> str:
        return self.place if self.protocol == "unix" else f"{self.protocol}://{join_host_port(*split_address(self.place))}"


def describe(error: OSError) -> str:
    """What the system says, as Go words it."""
    text = error.strerror or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
