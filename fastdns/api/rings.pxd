"""Octets on their way from the workers to one thread, through a ring for each worker (fastdns/telemetry/rings.pxd)."""
from fastdns.telemetry.rings cimport (Ring, Rings, ring_begin, ring_end, ring_is_empty, ring_take, rings_are_empty, rings_awake, rings_close, rings_may_sleep,
                                      rings_of, rings_open, rings_put, rings_room, rings_stop)
