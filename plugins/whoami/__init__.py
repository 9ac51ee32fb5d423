"""whoami: tells the client its own address and port."""

from __future__ import annotations

from fastdns.plugins.whoami._whoami import Whoami
from fastdns.setup.controller import Controller
from fastdns.setup.traits import Traits

TRAITS = Traits(runs_in_check=True)


def setup(controller: Controller) -> None:
    """``whoami``, without arguments."""
    controller.next()
    controller.no_args()
    controller.config.add_handler(Whoami("whoami"))
