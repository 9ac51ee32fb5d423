"""A query as the recorder keeps it: a head of fixed size, and parts of varying length behind it, in the order of `Record`'s lengths."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t

cdef enum:
    WAITS_MAX = 4               # of a query that are told apart; further ones are added to the last
    UPSTREAM_MAX = 48           # octets of the upstream's address as text, which ends with a zero
    OPTIONS_MAX = 256           # octets of EDNS options; longer ones are left out
    PACKET_MAX = 4096           # of a query that is kept whole
    NOTES_MAX = 1024
    ADDRESSES_MAX = 32
    RECORD_MAX = 1024           # of a record without what is kept longer: more than its parts together
    LONG_MAX = 73728            # of any record: RECORD_MAX, error, notes, packet and 65,535 octets of a reply

cdef enum Kind:                 # where a record is kept
    RECENT
    SLOW
    FAILED
    DROPPED
    KINDS

cdef enum Mark:
    MARK_EDNS = 1               # the query has an OPT
    MARK_WRITTEN = 2            # a plugin wrote the reply; otherwise the server made it of the rcode alone
    MARK_DROPPED = 4            # nothing was sent
    MARK_OPTIONS = 8            # its EDNS options were left out
    MARK_NAME = 16              # the name is hashed or cut
    MARK_CLIENT = 32            # the client's address is cut
    MARK_STREAM = 64            # a transfer: its messages are not kept
    MARK_REFUSED = 128          # no server block has the name

cdef struct Wait:               # a handler waits: for an upstream, a lock, a child
    uint8_t handler             # its position in the chain; 255: of another server block
    uint8_t depth               # of the child that waited
    uint16_t more               # further waits that `took` counts as well
    uint32_t at                 # microseconds after the query came
    uint32_t took

cdef struct Asked:              # one of two upstreams that were asked the same
    uint32_t at                 # microseconds after the query came
    uint32_t took
    uint16_t rcode
    uint8_t fate                # Fate of _asked.pxd
    uint8_t udp
    char upstream[UPSTREAM_MAX]

cdef struct Way:                # of a query so far: in its scratch
    int64_t since               # ns; 0: it does not wait
    uint8_t count
    uint8_t handler             # that waits now
    uint8_t depth
    uint8_t paired              # a PairedWay's `pair` is there
    Wait waits[WAITS_MAX]
    char upstream[UPSTREAM_MAX]

cdef struct PairedWay:          # of a server block in which a plugin may ask two upstreams
    Way way
    Asked pair[2]               # the first one asked first

cdef struct Record:
    uint32_t size               # octets in all; a multiple of 8
    uint32_t zone               # label of server, zone and view
    int64_t received            # ns, monotonic
    int64_t took                # ns
    uint16_t id
    uint16_t flags              # of the query's header
    uint16_t qtype
    uint16_t qclass
    uint16_t rcode
    uint16_t reply_flags        # AA, RA, AD, TC of the reply
    uint16_t reply_size         # octets of the message that was sent
    uint16_t chain              # number of the chain's names; 0: none
    uint16_t edns_size
    uint16_t edns_flags
    uint16_t client_port
    uint16_t local_port
    uint8_t edns_version
    uint8_t transport
    uint8_t marks
    uint8_t kind
    uint8_t deepest             # position of the last handler that was asked
    uint8_t writer              # of the one that wrote the reply; 255: none
    # ---- lengths of what follows ----
    uint8_t client_length       # 4 or 16
    uint8_t local_length
    uint8_t name_length         # wire form
    uint8_t waits               # of Wait, at an address that 4 divides
    uint16_t options_length
    uint8_t upstream_length
    uint8_t pair_length         # of two Asked, or 0
    uint8_t error_length
    uint16_t notes_length       # for each note: the handler's position, the length, the text
    uint16_t packet_length      # the query as it came
    uint16_t reply_length       # the reply as it was sent
