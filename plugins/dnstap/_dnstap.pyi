"""The native handler."""

from typing import Protocol

from fastdns._mux import NativeHandler
from fastdns.plugins.dnstap._sender import Sender

class Connection(Protocol):
    """What sends a tap's messages."""

    def stop(self) -> None:
        """Send what there is, and end."""

class DnstapHandler(NativeHandler):
    """Tells a tap what clients ask and get. ``connection.stop()`` is called when no more will come."""

    sender: Sender
    connection: Connection
    def __init__(self, sender: Sender, connection: Connection) -> None: ...
