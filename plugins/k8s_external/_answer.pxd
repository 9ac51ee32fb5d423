"""Records of services that can be reached from outside."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.plugins.k8s_external._external cimport Apex, External
from fastdns.plugins.kubernetes.answer.records cimport Ask
from fastdns.plugins.kubernetes.answer.name cimport Wanted
from fastdns.plugins.kubernetes.store.records cimport EndpointRecord, PortRecord, SliceRecord
from fastdns.plugins.kubernetes.answer.view cimport Result, View, Walk

cdef enum:
    HOSTS_MAX = 16                  # different host names that are looked up for one query
    ENTRIES_MOST = 16384            # entries that one answer is looked for in: there may be millions, with few different records

cdef struct Entry:                  # an address with one of its ports: what an SRV record is made of
    const PortRecord *port          # its number may be -1: none
    const char *port_text           # which port.text is an offset in
    uint8_t family                  # 4, 6, or 0 for a host name
    uint8_t host_length
    const uint8_t *ip
    const uint8_t *host             # text
    const SliceRecord *slice        # NULL: an address of the service itself
    const EndpointRecord *endpoint

cdef struct Entries:                # over all of a name
    const Wanted *wanted
    const Result *result
    Walk walk
    uint32_t address
    uint32_t port
    uint32_t first                  # the first port of the service that matches,
    uint32_t end                    # ... and the one behind the last
    uint8_t within                  # the walk stands at an endpoint

cdef struct Host:                   # in the query's arena
    const uint8_t *wire
    uint8_t length
    uint8_t times                   # that its records are added

cdef struct Hosts:                  # names outside of the cluster whose addresses belong to the answer
    uint32_t count
    uint32_t next
    Host hosts[HOSTS_MAX]

cdef enum Answer:
    ANSWER_NAME_ERROR
    ANSWER_READY                    # what the store has is in the reply, maybe nothing

cdef void entries_begin(Entries *entries, const View *view, const Wanted *wanted, const Result *result) noexcept nogil
cdef bint entries_next(Entries *entries, Entry *entry) noexcept nogil
# Leaves out the further ports of the address at work.
cdef void entries_skip(Entries *entries) noexcept nogil
# The name of an entry's service, or of its endpoint, in the zone. out has NAME_MAX octets; 0 when it is too long.
cdef uint32_t target_write(uint8_t *out, const View *view, const Result *result, const Entry *entry, const uint8_t *zone, uint32_t zone_length) noexcept nogil
# Looks for the service of ask.name (ask.wanted and ask.result are set); False is a name error.
cdef bint external_resolve(const External *external, Ask *ask, uint32_t zone_label) noexcept nogil
# Adds what the store has for a query; hosts gets the names whose addresses are yet to be looked up, or stays NULL.
cdef Answer external_answer(const External *external, Ask *ask, Hosts **hosts) noexcept nogil
# The zone's SOA, with the serial of now. out has apex.soa_length octets.
cdef void soa_write(uint8_t *out, const External *external, const Apex *apex) noexcept nogil
cdef void answer_soa(const External *external, const Apex *apex, Ask *ask, int section) noexcept nogil
# The NS record, and the server's addresses in the additional section.
cdef void answer_server(const External *external, const Apex *apex, Ask *ask) noexcept nogil
# The addresses of the zone's server, under the name that was asked for.
cdef void answer_server_addresses(const External *external, Ask *ask, uint16_t qtype) noexcept nogil
