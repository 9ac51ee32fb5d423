"""Zone transfers over TLS (RFC 9103): what a primary must show, and what it is shown."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastdns.tls.renewal import Renewal

__all__ = ["PROTOCOL", "Secure", "secure_of"]

#: Of ALPN (RFC 9103 7.1). It is offered; there are servers that choose none.
PROTOCOL = "dot"


class Secure:
    """Certificates for connections to primaries, of which the same files make one. TLS 1.3 alone, as RFC 9103 7.2 requires."""

    def __init__(self, files: Sequence[str]) -> None:
        """``files``: arguments of the directive ``tls``. OSError, TlsError."""
        from fastdns.tls.client import client_context

        self.context = client_context(files, (PROTOCOL,), only13=True)
        #: How often the files have been read again: connections from before are used no longer.
        self.renewed = 0
        self._renewal: Renewal | None = None

    def watch(self) -> None:
        """From now on read the files again when they change."""
        from fastdns.tls.renewal import Renewal

        if self._renewal is None and self.context.files:
            self._renewal = Renewal(self, self.context.files, self.context.states, "plugin/secondary")

    def renew(self) -> None:
        """OSError, TlsError: everything stays as it was."""
        self.context.renew()
        self.renewed += 1


_lock = threading.Lock()
_made: weakref.WeakValueDictionary[tuple[str, ...], Secure] = weakref.WeakValueDictionary()


def secure_of(files: Sequence[str]) -> Secure:
    """OSError, TlsError."""
    made = Secure(files)  # also where there is one: the files may have become unusable, which a reload should say
    with _lock:
        return _made.setdefault(tuple(files), made)
