"""Records from objects: what a resolved name puts into a reply."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.api.query cimport Query
from fastdns.api.reply cimport Reply
from fastdns.api.names cimport NAME_MAX, Name, ZoneName
from fastdns.plugins.kubernetes.answer.name cimport Near, Wanted
from fastdns.plugins.kubernetes.answer.view cimport Result, View

cdef enum:
    CANDIDATES_MAX = 16             # host names among the addresses of one name (slices of type FQDN)

cdef struct Ask:                    # a name that is looked up for a query
    const View *view
    Query *q
    const Name *name                # the query's, or the target of an alias
    const uint8_t *owner            # its wire form, as records are to be owned: lives as long as the query
    uint8_t owner_length
    uint8_t owned                   # always 1 for names of the query's own
    const uint8_t *zone             # wire form in the query's case, at the end of the query's name
    uint8_t zone_length
    int zone_flags
    const ZoneName *zone_name       # of the view
    Wanted wanted
    Result result
    Near near                       # of wanted

cdef struct Candidates:             # targets of aliases met; borrowed from the store
    uint32_t count
    const uint8_t *target[CANDIDATES_MAX]
    uint8_t length[CANDIDATES_MAX]
    uint8_t text[CANDIDATES_MAX]    # 1: not wire form but the text of a host name of that length

# The weight of one of so many entries in SRV records.
cdef uint16_t weight_of(uint32_t entries) noexcept nogil
# A target in the rdata of the SRV records [first, end), looked for from *at on; or a copy of it. NULL when the reply is full.
cdef const uint8_t *target_of(Reply *reply, uint32_t first, uint32_t end, uint32_t *at, const uint8_t *name, uint32_t length) noexcept nogil
# Parses and resolves ask.name. key_hash: service_key_hash of the two labels in front of "svc", or 0 where it is not known.
cdef void ask_resolve(Ask *ask, uint32_t zone_label, uint64_t key_hash) noexcept nogil
# Adds the addresses of a family. False is a name error; candidates (may be NULL) get the targets of aliases.
cdef bint answer_addresses(Ask *ask, uint16_t qtype, Candidates *candidates) noexcept nogil
cdef bint answer_srv(Ask *ask) noexcept nogil
# Whether the name exists: what queries for types without data ask. With `entries`, whether it has any (TXT).
cdef bint answer_exists(Ask *ask, bint entries) noexcept nogil
# The zone's SOA.
cdef void answer_soa(Ask *ask, int section) noexcept nogil
# How long a secondary may serve what the zone is now, for a client that asks: less since changes do not come from the API server.
cdef void answer_expire(Ask *ask) noexcept nogil
# NS records of the zone, addresses in the additional section.
cdef void answer_servers(Ask *ask) noexcept nogil
cdef enum:
    SOA_OCTETS_MAX = 2 * NAME_MAX + 20

# The serial of a zone of a store.
cdef uint32_t store_serial(const View *view, int zone_flags) noexcept nogil
# The SOA's rdata; out has SOA_OCTETS_MAX octets. Returns its length.
cdef uint32_t soa_write(uint8_t *out, const View *view, uint32_t serial, const uint8_t *zone, uint32_t zone_length) noexcept nogil
cdef uint32_t soa_ttl(const View *view) noexcept nogil
