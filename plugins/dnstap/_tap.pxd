"""A tap: messages of dnstap from the workers to what sends them, through a ring of octets for each worker. Nobody waits for a collector.

A ring (fastdns/telemetry/rings.pxd) holds frames as they go over the wire: four octets of length, then a protobuf `Dnstap`.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from fastdns.api.query cimport Query
from fastdns.api.rings cimport Rings
from fastdns.api.worker cimport Worker
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
    const uint8_t *head             # the fields that all messages have; borrowed from the Sender
    uint32_t head_length
    const Operation *extra          # NULL: none
    uint32_t extra_count
    uint32_t dropped_cell
    uint32_t torn                   # the sender's: frames sent in part, not yet counted as dropped
    Rings rings
