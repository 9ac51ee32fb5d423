"""The process that only keeps the sockets of the pod that serves, while that pod's container is started again."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from fastdns.node.flags import Flags
from fastdns.node.handover import KEEPING
from fastdns.node.network import Network, described
from fastdns.node.ownership import Ownership
from fastdns.node.peer import Client, Server, own_folder
from fastdns.node.signals import Signals
from fastdns.node.store import Store
from fastdns.telemetry.log import Log

__all__ = ["hold"]

log = Log()

#: Seconds for which sockets are kept that nobody serves: clients that ask later are led to other servers, or hear at once that there is none.
KEEP_SECONDS = 15.0


def hold(flags: Flags, signals: Signals) -> int:
    """Keep sockets until a signal to end comes. Returns the exit status. Raises OSError where the folder is of no use.

    With addresses in the flags, interface and rules are removed when nobody serves: a pod that was killed has not done so.
    """
    own_folder(flags.handover)
    store, path = Store(), os.path.join(flags.handover, KEEPING)
    ownership = Ownership(flags.handover, described(flags))
    with suppress(OSError):  # of a process like this one, which may soon end
        former = Client(path)
        try:
            former.take(store)
        finally:
            former.close()
    server = Server(path, store, keeps=True)
    server.listen()
    since: float | None = time.monotonic()
    while True:
        left = KEEP_SECONDS if since is None else since + KEEP_SECONDS - time.monotonic()
        numbers, ready = signals.wait(left, server.files())
        if set(numbers) & set(Signals.ENDS):
            return 0
        if server.clients:
            since = time.monotonic()
        server.act(ready)
        if since is not None and not server.clients and time.monotonic() - since >= KEEP_SECONDS:
            since = None
            _give_up(flags, store, ownership)


def _give_up(flags: Flags, store: Store, ownership: Ownership) -> None:
    """Nobody has served for `KEEP_SECONDS`."""
    if store.sockets:
        log.info(f"Nobody has served for {KEEP_SECONDS:g} s: closing the sockets")
        store.close()
    if not flags.addresses or flags.skipteardown:
        return
    if ownership.leave():
        Network(flags).tear_down()
        ownership.release()
