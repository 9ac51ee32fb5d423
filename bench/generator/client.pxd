"""What drives a server from one thread, and the seam between pacing and transports: `Carriage` is all that pacing knows of a transport."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.system.socket cimport iovec, mmsghdr, pollfd, sockaddr_in, sockaddr_in6, socklen_t
from fastdns.bench.generator.flight cimport Check, Flight, Counters, flight_reply, flight_complete
from fastdns.bench.generator.queries cimport PackedQuery

cdef enum:
    BATCH = 64                      # queries or replies in one system call
    MESSAGE_STRIDE = 320            # the longest query and its length on a stream fit
    QUERY_STRIDE = 352              # and in a request of HTTP, besides its head
    HEAD_MAX = 1024                 # octets of what precedes a query in a request of HTTP

cdef struct Client:                 # one socket or connection
    int fd                          # -1: none
    short events                    # to wait for beside replies
    Driver *driver                  # borrowed
    sockaddr_in local               # that its connections come from; zeroed: any
    Flight flight
    void *stream                    # owned by the carriage
    uint32_t opened                 # how much of the window is used, in a closed loop

cdef struct Carriage:
    # All are of a client; none waits, but for datagrams' flush when the kernel has no room.
    int (*open)(Client *client) noexcept nogil              # 0 or an errno; streams may still be connecting after
    bint (*is_open)(Client *client) noexcept nogil          # ready for queries
    uint32_t (*capacity)(Client *client) noexcept nogil         # how many queries can be put now
    void (*put)(Client *client, uint32_t slot, const PackedQuery *query) noexcept nogil
    void (*flush)(Client *client) noexcept nogil            # hands over what was put
    uint32_t (*receive)(Client *client) noexcept nogil      # takes replies up; how many
    void (*close)(Client *client) noexcept nogil

cdef struct Datagrams:              # one batch each way, of the thread
    uint32_t count                  # put, not yet flushed
    uint32_t stride                 # of received
    uint32_t slots[BATCH]
    mmsghdr outgoing[BATCH]
    iovec outgoing_parts[BATCH]
    uint8_t outgoing_octets[BATCH * MESSAGE_STRIDE]
    mmsghdr incoming[BATCH]
    iovec incoming_parts[BATCH]
    uint8_t *incoming_octets        # owned

cdef struct Driver:
    const PackedQuery *queries      # borrowed from the set, as are order and bursts
    const Carriage *carriage
    Client *clients                 # owned
    pollfd *polled                  # owned; one a client
    uint32_t count                  # clients
    bint edns
    Check check
    sockaddr_in6 peer
    socklen_t peer_length
    int family
    int64_t timeout                 # ns
    Counters *counters                    # of now
    Datagrams datagrams
    void *tls                       # SSL_CTX; owned by the generator
    char server_name[256]           # for SNI; empty: none
    char protocols[16]              # for ALPN: one, behind its length; empty: none
    bint foreign                    # the server does not speak that one
    uint8_t head[HEAD_MAX]          # of each request, up to the content's length
    uint32_t head_length
    uint64_t warmed                 # queries of the warm-up
    uint64_t dropped                # replies that the kernel had no room for

cdef inline void client_reply(Client *client, const uint8_t *packet, uint32_t length, int64_t now) noexcept nogil:
    cdef Driver *driver = client.driver
    flight_reply(&client.flight, driver.queries, packet, length, now, driver.check, driver.edns, driver.counters)

cdef inline void client_settle(Client *client, uint32_t slot, int verdict, const uint8_t *packet, uint32_t length, int64_t now) noexcept nogil:
    cdef Driver *driver = client.driver
    flight_complete(&client.flight, slot, verdict, driver.queries, packet, length, now, driver.check, driver.edns, driver.counters)

cdef inline void client_sent(Client *client, uint32_t slot) noexcept nogil:
    if client.flight.slots[slot].counted:
        client.driver.counters.sent += 1
    else:
        client.driver.warmed += 1

cdef inline uint32_t digits(uint8_t *at, uint32_t number) noexcept nogil:
    """Writes a number below 1000; how many octets."""
    cdef uint32_t n = 0
    if number >= 100:
        at[n] = <uint8_t>(48 + number // 100)
        n += 1
    if number >= 10:
        at[n] = <uint8_t>(48 + number // 10 % 10)
        n += 1
    at[n] = <uint8_t>(48 + number % 10)
    return n + 1
