"""What the report says of one object or line."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastdns.migrate.shell import plain

__all__ = ["ERROR", "NOTE", "WARNING", "Finding"]

#: Has to be changed before the image is.
ERROR = "error"
#: May do harm, in this cluster or at another time.
WARNING = "warning"
NOTE = "note"


class Finding(NamedTuple):
    """``subject`` is the object (``Deployment/coredns``), or the file in the pod, with its line."""

    severity: str
    subject: str
    message: str
    #: What to do about it.
    hint: str = ""
    #: For a shell; "" where the plan has it, or nobody can know.
    command: str = ""
    #: Of a file, from 1.
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.subject}:{self.line}" if self.line else self.subject
        rest = f"\n    {plain(self.hint)}" if self.hint else ""
        rest += f"\n    $ {self.command}" if self.command else ""
        return f"{plain(place)}: {self.severity}: {plain(self.message)}{rest}"

    def as_json(self) -> dict[str, Any]:
        return self._asdict()
