"""The records below one path of etcd as of one revision, sorted by key: what workers read without locks.

A snapshot is never changed, but for the times of its leases; another one takes its place, and it is freed when no worker can still see it.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum HostKind:                 # of a record's `host`
    HOST_NONE                       # neither host nor text
    HOST_TEXT                       # no address, and there is a text
    HOST_NAME
    HOST_4
    HOST_6
    HOST_BROKEN                     # the value could not be read: queries that meet it fail

cdef struct Service:                # a key and its value (SkyDNS's message); offsets are those in Snapshot.octets
    uint32_t key                    # below the path, without a leading slash: labels from the zone's side
    uint32_t host                   # wire form; of HOST_BROKEN the error's text, zero-terminated
    uint32_t name                   # wire form of the name that the key stands for
    uint32_t text                   # rdata of TXT
    uint32_t group
    uint32_t ttl                    # seconds; 0: none
    int32_t lease                   # position in Snapshot.leases, or -1
    int32_t port                    # -1: none
    int32_t priority
    int32_t weight
    uint16_t key_length
    uint16_t text_length            # 0: no text
    uint16_t group_length
    uint16_t depth                  # slashes in the key
    uint8_t host_length             # 0: no name that DNS could have
    uint8_t name_length             # likewise
    uint8_t strip                   # labels taken from the front of targets
    uint8_t has_host                # the host is not empty
    uint8_t mail
    uint8_t kind                    # HostKind
    uint8_t ip[16]

cdef struct Snapshot:
    uint32_t count
    uint32_t lease_count
    Service *services               # all in one block with what follows
    int64_t *leases                 # atomic; when each ends, ns, monotonic; 0: unknown
    uint8_t *octets

cdef struct Source:
    Snapshot *snapshot              # atomic; NULL until the first list is complete

cdef class Records:
    cdef Source source              # borrowed by the handler, which keeps this

# The first service whose key is not below the given one.
cdef uint32_t snapshot_bound(const Snapshot *snapshot, const uint8_t *key, uint32_t length) noexcept nogil
