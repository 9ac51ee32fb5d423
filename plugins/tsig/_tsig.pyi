from collections.abc import Iterable
from typing import Any

from fastdns._mux import NativeHandler
from fastdns.index.zone_list import ZoneList

class TsigHandler(NativeHandler):
    """Checks the signatures of requests in ``zones``, and signs their replies.

    ``secrets`` are the block's keys by name, None where a secret cannot be used; ``blocks`` is the configuration's list of
    (Config, secrets), which is complete when the handler is attached. ``types`` and ``opcodes`` are numbers that have to be signed.
    """

    def __init__(
        self,
        name: str,
        zones: ZoneList,
        secrets: dict[str, bytes | None],
        blocks: list[Any],
        types: Iterable[int] = (),
        opcodes: Iterable[int] = (),
        all_types: bool = False,
        all_opcodes: bool = False,
    ) -> None: ...
