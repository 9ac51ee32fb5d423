"""The rights of the server, which parses what pods send: a user without privileges, and ports below 1024 (capabilities(7))."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

__all__ = ["User", "drop_rights", "parse_user"]

#: linux/prctl.h, linux/capability.h
PR_SET_KEEPCAPS = 8
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CAP_NET_BIND_SERVICE = 10
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
#: The largest number of a user or group; one more means "unchanged" to setresuid(2).
ID_MAX = 0xFFFFFFFE

LIBC = ctypes.CDLL(None, use_errno=True)


class User(NamedTuple):
    uid: int
    gid: int


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def parse_user(text: str) -> User | None:
    """``UID`` or ``UID:GID``, numbers; "": None. Raises ValueError."""
    if not text:
        return None
    uid, colon, gid = text.partition(":")
    numbers = [uid, gid] if colon else [uid, uid]
    if not all(number.isascii() and number.isdecimal() and int(number) <= ID_MAX for number in numbers):
        raise ValueError(f'invalid user specified - "{text}"')
    return User(int(numbers[0]), int(numbers[1]))


def drop_rights(user: User) -> None:
    """Become the user for good. Of all capabilities NET_BIND_SERVICE stays, also over exec, if this process has it.

    Needs SETUID and SETGID where this process is another user. Raises OSError.
    """
    _check(LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    header = _Header(_LINUX_CAPABILITY_VERSION_3, 0)
    data = (_Data * 2)()
    _check(LIBC.capget(ctypes.byref(header), data))
    kept = data[0].permitted & 1 << CAP_NET_BIND_SERVICE
    data[0] = _Data(kept, kept, kept)
    data[1] = _Data(0, 0, 0)
    _check(LIBC.capset(ctypes.byref(header), data))
    if kept:
        _check(LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0))
    _check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _check(status: int) -> None:
    if status < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
