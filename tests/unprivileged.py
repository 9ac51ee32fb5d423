"""Runs a program, given as the arguments, without root's right to open any file: `FASTDNS_BIN` of a test may name it."""

from __future__ import annotations

import ctypes
import os
import sys

#: linux/prctl.h, linux/capability.h
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

if __name__ == "__main__":
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability)  # without root there is none to drop
    os.execv(sys.argv[1], sys.argv[1:])
