"""The cache's handler and its state."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.api.query cimport NativeHandler, Query
from fastdns.api.worker cimport Timer
from fastdns.api.names cimport Name, ZoneList, Zones
from fastdns.plugins.cache._contents cimport Contents, SharedContents
from fastdns.plugins.cache._store cimport Asked, Buckets, Store
from fastdns.plugins.cache._worth cimport Limits

cdef enum Mode:                 # what a query means to the cache
    MODE_NONE
    MODE_MISS                   # its reply is kept
    MODE_UNKEPT                 # its reply is not: both stores are disabled for the name
    MODE_VERIFY                 # parked with a stale reply until its child has asked
    MODE_WAIT                   # parked with a stale reply until a refresh of the key is through, or the time is up
    MODE_REFRESH                # a detached child: a prefetch or the refresh of a stale entry

cdef enum Place:                # where a name stands
    PLACE_OUTSIDE               # in none of the cache's zones
    PLACE_UNKEPT                # in zones of which nothing is kept
    PLACE_KEPT

cdef struct Work:               # in each query's scratch
    const Name *placed          # the name whose place is known: a handler above may have changed it since; NULL: none
    Place place
    uint64_t hash               # of the key
    Asked asked                 # of the question that goes down; where names are removed
    Timer timer                 # MODE_WAIT: when the stale reply goes out
    Query *waiter               # MODE_REFRESH: the query in MODE_WAIT, or NULL
    uint32_t waiter_generation
    uint16_t flags              # of the request, before the handlers below saw AD
    const uint8_t *subnet       # of the key with KEY_SUBNET, in the query's arena
    uint8_t subnet_length
    uint8_t mode                # Mode
    uint8_t bits                # of the key
    uint8_t secure              # the client wants to know about AD: it sent DO or AD
    uint8_t stale               # the entry had expired: only a reply that is good enough replaces it
    uint8_t kind                # of the entry to be refreshed
    uint8_t accepted            # MODE_WAIT: the reply is fresh
    int64_t hits                # MODE_REFRESH: of the former entry

cdef struct Cells:              # metric cells of one server
    uint32_t requests
    uint32_t hits[2]            # by kind
    uint32_t misses
    uint32_t prefetches
    uint32_t drops
    uint32_t stale
    uint32_t evictions[2]

cdef struct Cache:
    Buckets buckets             # of the store
    Store *store                # of the contents
    Contents *contents          # owned by CacheHandler.shared
    Limits limits
    const Zones *zones          # borrowed from the handler's lists
    const Zones *excepted[2]    # by kind
    const Zones *unkept         # excepted from both
    const Zones *bypassed       # of handlers below whose records clients change: queries for them pass by
    Cells *cells                # by server label
    int64_t prefetch            # hits that make an entry worth a prefetch; 0: none
    int64_t duration            # ns between two hits that still count together
    uint32_t percentage         # of the TTL that is left when a prefetch starts
    int64_t stale               # seconds for which expired entries are served; 0: not
    int64_t timeout             # ns that a client waits for a verification; 0: as long as it takes
    int64_t recheck             # ns without a refresh after a failed one
    uint32_t stale_ttl          # of stale records; 0: none given
    uint8_t verify
    uint8_t positive            # prefer_positive
    uint8_t keepttl
    uint8_t subnet_sent                # handlers below tell upstreams the client's subnet
    uint8_t subnet_bits[2]      # then: bits of IPv4 and IPv6 addresses

cdef class CacheHandler(NativeHandler):
    cdef Cache *cache
    cdef object settings
    cdef SharedContents shared
    cdef readonly bint inherited    # `shared` is a former handler's, too
    cdef double share               # of what `shared` may hold, unless it is a former handler's
    cdef bint owns                  # `shared` is its own
    cdef list below             # handlers of the server block
    cdef list observers         # of those whose names are removed when they change
    cdef tuple lists            # ZoneList objects that cache points into
    cdef ZoneList bypassed      # likewise
    cdef str view
    cdef list watched
    cdef int _hold(self, SharedContents shared) except -1
    cdef int _begin(self) except -1
    cdef int _observe(self, str zones, str view) except -1
