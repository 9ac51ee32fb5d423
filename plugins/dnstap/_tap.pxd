"""A tap: messages of dnstap from the workers to what sends them, through a ring of octets for each worker. Nobody waits for a collector.

A ring holds frames as they go over the wire: four octets of length, then a protobuf `Dnstap`. A frame lies in one piece:
one that reaches the end of the ring runs over into the space behind it, and the next one begins as much further.

Memory order. `head` releases frames to the sender, `tail` their space to the worker; each side loads the other's with acquire. A ring is released by
the pointer to it. The sender sleeps as the consumer of a mailbox does (fastdns/system/mailbox.pxd): a fence in each thread.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.query cimport Query
from fastdns.api.worker cimport WORKERS_MAX, Worker
from fastdns.api.metadata cimport Operation
from fastdns.api.network cimport Address

cdef enum:
    TAP_RING_LEAST = 262144         # octets: more than any frame has
    TAP_HEAD_MAX = 8192             # octets of identity and version
    TAP_EXTRA_MAX = 2048            # longer ones are cut
    TAP_OVERHANG = 65535 + TAP_HEAD_MAX + TAP_EXTRA_MAX + 512

cdef enum TapType:                  # Message.Type
    TAP_CLIENT_QUERY = 5
    TAP_CLIENT_RESPONSE = 6
    TAP_FORWARDER_QUERY = 7
    TAP_FORWARDER_RESPONSE = 8

cdef struct Ring:                   # one producer, one consumer; positions grow for ever
    uint64_t head                   # atomic; octets put, always at the end of a frame
    uint64_t size                   # octets; constant
    uint64_t padding[6]
    uint64_t tail                   # atomic; octets taken
    uint64_t more_padding[7]
    uint8_t data[1]                 # `size` octets and the overhang

cdef struct Tapped:                 # what a message tells; zeroed fields are left out
    TapType type
    bint udp
    const Address *query_address
    const Address *response_address
    int64_t query_time              # ns since 1970
    int64_t response_time
    const uint8_t *message          # of the query or the response
    uint32_t length
    Query *reply_of                 # its fitted reply is the message instead
    Query *q                        # for `extra`

cdef struct Tap
ctypedef void (*tap_put_func)(Tap *tap, Worker *worker, const Tapped *tapped) noexcept nogil

cdef struct Tap:
    tap_put_func put                # for who does not link with this module
    uint8_t full                    # raw messages are wanted
    uint8_t wanted                  # 0: nobody would read them; atomic
    uint8_t stopping                # atomic
    uint64_t octets                 # of all rings
    const uint8_t *head             # the fields that all messages have; borrowed from the Sender
    uint32_t head_length
    const Operation *extra          # NULL: none
    uint32_t extra_count
    uint32_t dropped_cell
    uint32_t asleep                 # atomic: the sender waits for `bell`
    int bell                        # eventfd
    uint32_t torn                   # the sender's: frames sent in part, not yet counted as dropped
    Ring *rings[WORKERS_MAX]        # made by their worker's first message
