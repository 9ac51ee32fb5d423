"""The engine of a process: its workers, its listeners and the configuration that they serve."""
from libc.stdint cimport uint32_t, int64_t
from fastdns.engine.chains cimport Chains
from fastdns.engine.loop cimport Workers
from fastdns.walk.query cimport ChainSet

cdef class Engine:
    cdef readonly Workers threads
    cdef ChainSet *published        # atomic: releases a configuration to the workers, which acquire it at the start of each turn
    cdef readonly Chains chains     # the same
    cdef readonly Chains canary     # what a share of the clients gets instead; None: all get the same
    cdef uint32_t bound             # listeners so far
    cdef set listeners
    cdef set indexes
    cdef readonly list retired      # Chains whose queries are not all answered yet
    cdef list ends                  # (what a function of when_retired waits for, the function)
    cdef object retiring            # lock of both
    cdef int64_t _parked(self, Chains chains)
