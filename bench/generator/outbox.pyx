"""Queries for Python to carry. The contract is in _outbox.pxd."""
from libc.errno cimport ENOMEM
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from fastdns.bench.generator.client cimport BATCH, Client, client_sent
from fastdns.bench.generator.queries cimport PackedQuery


cdef int outbox_open(Client *client) noexcept nogil:
    client.stream = calloc(1, sizeof(Outbox))
    if client.stream == NULL:
        return ENOMEM
    (<Outbox *>client.stream).open = True
    return 0


cdef bint outbox_is_open(Client *client) noexcept nogil:
    return (<Outbox *>client.stream).open


cdef uint32_t outbox_capacity(Client *client) noexcept nogil:
    cdef Outbox *outbox = <Outbox *>client.stream
    return min(outbox.capacity, <uint32_t>BATCH - outbox.count)


cdef void outbox_put(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil:
    cdef Outbox *outbox = <Outbox *>client.stream
    outbox.slots[outbox.count] = slot
    outbox.count += 1
    outbox.capacity -= 1
    client_sent(client, slot)


cdef void outbox_flush(Client *client) noexcept nogil:
    pass


cdef uint32_t outbox_receive(Client *client) noexcept nogil:
    return 0


cdef void outbox_close(Client *client) noexcept nogil:
    free(client.stream)
    client.stream = NULL


OUTBOX.open = outbox_open
OUTBOX.is_open = outbox_is_open
OUTBOX.capacity = outbox_capacity
OUTBOX.put = outbox_put
OUTBOX.flush = outbox_flush
OUTBOX.receive = outbox_receive
OUTBOX.close = outbox_close
