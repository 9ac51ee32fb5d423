"""Connections that transports over TCP and TLS share: made without waiting, made anew when they break, with octets that wait either way."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from fastdns.bench.generator.client cimport Client, Driver

cdef enum State:
    CLOSED
    CONNECTING
    SHAKING
    OPEN

cdef enum:
    OUT = 32768                     # octets of queries that may wait for the kernel
    IN = 131072                     # and of replies; the longest is half of it

cdef enum:                          # of reading
    LATER = -1
    BROKEN = -2

cdef struct Connection:             # what client.stream begins with
    State state
    bint greeted                    # the protocol above has begun; false whenever it is made anew
    void *ssl                       # owned; NULL: plain TCP
    int64_t again                   # ns, monotonic: when a closed one is made anew
    uint32_t out_begin, out_end
    uint32_t in_end
    uint8_t outgoing[OUT]
    uint8_t incoming[IN]

# The context of TLS connections in driver.tls. 0, -1 when there is no libssl, -2 when it has no memory.
cdef int tls_open(Driver *driver) noexcept nogil
cdef void tls_close(Driver *driver) noexcept nogil

# Begins to connect; 0 or an errno.
cdef int connection_open(Client *client) noexcept nogil
# Ends it; it is made anew as soon as somebody asks whether it is open.
cdef void connection_close(Client *client) noexcept nogil
# Ends it, counts that, gives up what is under way on it, and waits a moment before it is made anew.
cdef void connection_break(Client *client) noexcept nogil
# Whether it is ready; else takes it further.
cdef bint connection_is_open(Client *client) noexcept nogil
# Takes one that is being made as far as it goes.
cdef void connection_advance(Client *client) noexcept nogil
# Octets that can be added at out_end.
cdef uint32_t connection_capacity(Connection *connection) noexcept nogil
# Hands over what waits; client.events says whether some still does. May break.
cdef void connection_flush(Client *client) noexcept nogil
# Reads what there is to in_end: how much, LATER or BROKEN. The caller breaks it.
cdef ssize_t connection_read(Client *client) noexcept nogil
# Takes away the first octets of incoming.
cdef void connection_consume(Connection *connection, uint32_t octets) noexcept nogil
