"""What a pod has to do with the other ones of its node: their sockets, and what belongs to all of them."""

from __future__ import annotations

import os
from contextlib import suppress

from fastdns.node.ownership import Ownership
from fastdns.node.peer import SEND_SECONDS, Client, Server, own_folder
from fastdns.node.store import Store
from fastdns.telemetry.log import Log

__all__ = ["KEEPING", "Handover"]

log = Log()

#: In the folder: of the pod that serves, and of the process that keeps sockets.
SERVING, KEEPING = "serving", "keeping"


class Handover:
    """``folder`` is on the node, ``network`` says what the pod makes there. Raises OSError where the folder is of no use."""

    def __init__(self, folder: str, network: str, store: Store) -> None:
        own_folder(folder)
        self.folder, self.store = folder, store
        self.ownership = Ownership(folder, network)
        self.server = Server(os.path.join(folder, SERVING), store, keeps=False)
        #: The pod that has given its sockets, until it has ended.
        self.former: Client | None = None
        self.keeper: Client | None = None

    def take(self) -> None:
        """At the start: have the sockets of the pod that serves, or else those that are kept. Who removes interface and rules just now is waited for."""
        self.former = self._taken_from(SERVING)
        # As long as the connection stands, the process that keeps sockets knows that somebody comes.
        self.keeper = self._taken_from(KEEPING, wanted=not self.store.sockets)
        self.ownership.join()
        self.ownership.release()
        if self.store.sockets:
            log.info(f"Taken over {sum(map(len, self.store.sockets.values()))} sockets of {'the pod that serves' if self.former else 'one that has ended'}")

    def _taken_from(self, name: str, wanted: bool = True) -> Client | None:
        """A connection to who has this place, with its sockets in the store if they are wanted. None where nobody has it."""
        client = None
        try:
            client = Client(os.path.join(self.folder, name))
            if wanted:
                client.take(self.store)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            log.error(f"Taking over sockets: {error}")
            if client is not None:
                client.close()
            return None
        return client

    def files(self) -> list[int]:
        return self.server.files() + ([self.former.socket.fileno()] if self.former is not None else [])

    def act(self, ready: set[int]) -> bool:
        """Answer other pods. Returns whether the former one has ended: what it had to itself of interface and rules may have gone with it."""
        try:
            self.server.act(ready)
        except OSError as error:
            log.error(f"Handing over sockets: {error}")
        if self.former is not None and self.former.socket.fileno() in ready and self.former.has_ended():
            self.former.close()
            self.former = None
            return True
        return False

    def serves(self) -> None:
        """The server serves, and interface and rules are there: the former pod is told so, and the next one finds this one."""
        try:
            if self.former is not None:
                self.former.socket.settimeout(SEND_SECONDS)
                self.former.socket.send(b"SERVING=1")
            if self.server.socket is None:
                self.server.listen()
        except OSError as error:
            log.error(f"Handing over sockets: {error}")
        # It has those of before.
        if self.keeper is not None:
            self.keeper.close()
            self.keeper = None
        self._keep()

    def look(self) -> None:
        """Now and then: be found by the next pod, and by the process that keeps sockets, which may have been started again."""
        try:
            self.server.keep_place()
        except OSError as error:
            log.error(f"Handing over sockets: {error}")
        self._keep()

    def _keep(self) -> None:
        """Give the sockets to the process that keeps them, if there is one that has none of this pod."""
        if self.keeper is not None and not self.keeper.has_ended():
            return
        if self.keeper is not None:
            self.keeper.close()
            self.keeper = None
        if not self.store.ready:
            return
        with suppress(OSError):
            client = Client(os.path.join(self.folder, KEEPING))
            try:
                client.socket.settimeout(SEND_SECONDS)
                self.store.send(client.socket)
            except OSError:
                client.close()
                raise
            self.keeper = client

    @property
    def is_awaited(self) -> bool:
        """Whether another pod has taken the sockets and does not serve yet."""
        return any(client.has_taken and not client.serves for client in self.server.clients.values())
