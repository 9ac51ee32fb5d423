"""NOTIFY for addresses of 127.0.0.0/8, on one socket for all of them."""
from libc.stdint cimport uint16_t, uint32_t

cdef enum:
    NOTIFIED_BATCH = 64

cdef struct Notified:
    int fd                          # -1: none

# receive_buffer: octets. -1 and errno.
cdef int notified_open(Notified *notified, uint16_t port, int receive_buffer) noexcept nogil
cdef void notified_close(Notified *notified) noexcept nogil
# Answers what has come. `told` is called with the address (host order) of each NOTIFY.
cdef void notified_take(Notified *notified, void (*told)(void *data, uint32_t address) noexcept nogil, void *data) noexcept nogil
