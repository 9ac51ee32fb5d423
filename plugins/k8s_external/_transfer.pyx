"""The records of an external zone, for plugin transfer: copied in one go while the store's writer waits, so they are of one moment.

They are as many as CoreDNS sends: an address comes once for each port, and SRV records of headless services come twice.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS, TYPE_SOA, TYPE_SRV, store16
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.k8s_external._answer cimport Entries, Entry, entries_begin, entries_next, soa_write, target_write
from fastdns.plugins.k8s_external._external cimport Apex, External, ExternalZones
from fastdns.plugins.kubernetes.answer.chase cimport from_text
from fastdns.plugins.kubernetes.answer.name cimport Wanted
from fastdns.plugins.kubernetes.store.records cimport LOCAL, SERVICE_HEADLESS, ServiceNode
from fastdns.plugins.kubernetes.answer.servers cimport OUTSIDE, OUTSIDE_HEADLESS, SERVERS_MAX, Server, servers_collect
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_unlock
from fastdns.plugins.kubernetes.zone.content cimport port_write, services_sorted
from fastdns.plugins.kubernetes.answer.view cimport FOUND_CLUSTER_IP, FOUND_ENDPOINTS, Result, View
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source
from fastdns.plugins.transfer._transfer cimport transfer_of

cdef struct Making:                 # what the rows are made of
    Rows *rows
    uint8_t failed                  # memory ran out beside them
    const External *external
    const Apex *apex
    Wanted wanted                   # any port
    Result result                   # the service at work
    uint8_t name[NAME_MAX]          # its name
    uint32_t length

cdef struct Once:                   # what was there before
    uint64_t *slots
    uint32_t mask


cdef bint is_new(Once *once, const uint8_t *first, uint32_t first_length, const uint8_t *second, uint32_t second_length) noexcept nogil:
    cdef uint64_t hash = (hash_octets(first, first_length, hash_seed) * 3 ^ hash_octets(second, second_length, hash_seed)) | 1
    cdef uint32_t i = <uint32_t>(hash >> 32) & once.mask
    while once.slots[i]:
        if once.slots[i] == hash:
            return False
        i = (i + 1) & once.mask
    once.slots[i] = hash
    return True


# ---- rows ----

cdef void put_address(Making *making, const uint8_t *owner, uint32_t length, const Entry *entry) noexcept nogil:
    rows_put(making.rows, TYPE_A if entry.family == 4 else TYPE_AAAA, making.external.ttl, owner, length, entry.ip, 4 if entry.family == 4 else 16)


cdef void put_srv(Making *making, const uint8_t *owner, uint32_t owner_length, uint32_t weight, int port, const uint8_t *target, uint32_t length,
                  uint32_t times) noexcept nogil:
    cdef uint8_t rdata[6 + NAME_MAX]
    cdef uint32_t i
    store16(rdata, 0)
    store16(rdata + 2, weight if weight else 1)
    store16(rdata + 4, <uint32_t>port)
    memcpy(rdata + 6, target, length)
    for i in range(times):
        rows_put(making.rows, TYPE_SRV, making.external.view.ttl, owner, owner_length, rdata, 6 + length)


# ---- services with external addresses ----

cdef void put_external(Making *making) noexcept nogil:
    """Addresses; and one SRV record for the service and for each of its ports, whatever it has more."""
    cdef Entries entries
    cdef Entry entry
    cdef uint8_t target[NAME_MAX + 1]
    cdef uint8_t owner[NAME_MAX]
    cdef uint32_t length, owner_length, strip, bare = 0
    entries_begin(&entries, making.external.view, &making.wanted, &making.result)
    while entries_next(&entries, &entry):
        if entry.family:
            length = making.length
            memcpy(target, making.name, length)
            put_address(making, making.name, making.length, &entry)
        else:
            length = from_text(entry.host, entry.host_length, target)
            if length == 0:
                continue
            rows_put(making.rows, TYPE_CNAME, making.external.view.ttl, making.name, making.length, target, length)
            rows_put(making.rows, TYPE_CNAME, making.external.view.ttl, making.name, making.length, target, length)
        if entry.port.number < 0:
            continue
        if not bare:
            bare = 1
            put_srv(making, making.name, making.length, 100, entry.port.number, target, length, 1)
        owner_length = port_write(owner, entry.port_text, entry.port, making.name, making.length) if entries.address == 0 else 0
        if owner_length:
            # CoreDNS takes the labels of port and protocol from the target, host name or not.
            strip = 0 if entry.family else stripped(target)
            put_srv(making, owner, owner_length, 100, entry.port.number, target + strip, length - strip, 1)


cdef uint32_t stripped(const uint8_t *name) noexcept nogil:
    """Octets of the first two labels, if others follow."""
    cdef uint32_t first = name[0] + 1u
    cdef uint32_t second = first + name[first] + 1u if name[first] else first
    return second if name[first] and name[second] else 0


# ---- headless services ----

cdef void put_headless(Making *making) noexcept nogil:
    cdef const View *view = making.external.view
    cdef Entries entries
    cdef Entry entry
    cdef Once once
    cdef uint8_t target[NAME_MAX]
    cdef uint8_t key[2 + NAME_MAX]
    cdef uint32_t length, count = 0, size = 64
    entries_begin(&entries, view, &making.wanted, &making.result)
    while entries_next(&entries, &entry):
        count += 1
    while size < count * 8:
        size *= 2
    once.mask = size - 1
    once.slots = <uint64_t *>calloc(size, sizeof(uint64_t))
    if once.slots == NULL:
        making.failed = 1
        return
    entries_begin(&entries, view, &making.wanted, &making.result)
    while entries_next(&entries, &entry):
        length = target_write(target, view, &making.result, &entry, making.apex.zone.wire, making.apex.zone.length)
        if entry.family == 0 or length == 0:
            continue
        if is_new(&once, <const uint8_t *>b"address", 7, entry.ip, 4 if entry.family == 4 else 16):
            put_address(making, making.name, making.length, &entry)
        put_address(making, target, length, &entry)
        if entry.port.number < 0:
            continue
        store16(key, <uint32_t>entry.port.number)
        memcpy(key + 2, target, length)
        if is_new(&once, <const uint8_t *>b"service", 7, key, length + 2):
            put_srv(making, making.name, making.length, 100 // count, entry.port.number, target, length, 2)
        put_srv(making, target, length, 100, entry.port.number, target, length, 2)
        if entry.port.name_length:
            put_port(making, &once, &entry)
    free(once.slots)


cdef void put_port(Making *making, Once *once, const Entry *first) noexcept nogil:
    """SRV records of a named port, when it is met for the first time."""
    cdef const View *view = making.external.view
    cdef Entries entries
    cdef Entry entry
    cdef uint8_t owner[NAME_MAX]
    cdef uint8_t other[NAME_MAX]
    cdef uint8_t target[NAME_MAX]
    cdef uint8_t key[2 + NAME_MAX]
    cdef uint32_t length, count = 0
    cdef uint32_t owner_length = port_write(owner, first.port_text, first.port, making.name, making.length)
    cdef int step
    if owner_length == 0 or not is_new(once, <const uint8_t *>b"port", 4, owner, owner_length):
        return
    for step in range(2):           # count, then put
        entries_begin(&entries, view, &making.wanted, &making.result)
        while entries_next(&entries, &entry):
            if entry.family == 0 or port_write(other, entry.port_text, entry.port, making.name, making.length) != owner_length or (
                    memcmp(owner, other, owner_length) != 0):
                continue
            if step == 0:
                count += 1
                continue
            length = target_write(target, view, &making.result, &entry, making.apex.zone.wire, making.apex.zone.length)
            if length == 0 or entry.port.number < 0:
                continue
            store16(key, <uint32_t>entry.port.number)
            memcpy(key + 2, target, length)
            if is_new(once, owner, owner_length, key, length + 2):
                put_srv(making, owner, owner_length, 100 // count, entry.port.number, target, length, 1)


# ---- the whole zone ----

cdef void put_server(Making *making) noexcept nogil:
    cdef const External *external = making.external
    cdef const Apex *apex = making.apex
    cdef Server servers[SERVERS_MAX]
    cdef uint32_t i, count = servers_collect(external.view, OUTSIDE_HEADLESS if external.headless else OUTSIDE, servers)
    rows_put(making.rows, TYPE_NS, external.ttl, apex.zone.wire, apex.zone.length, apex.server, apex.server_length)
    for i in range(count):
        rows_put(making.rows, TYPE_A if servers[i].family == 4 else TYPE_AAAA, external.ttl, apex.server, apex.server_length, servers[i].ip,
                 4 if servers[i].family == 4 else 16)


cdef void put_services(Making *making) noexcept nogil:
    cdef const External *external = making.external
    cdef const Apex *apex = making.apex
    cdef uint32_t i, count
    cdef const ServiceNode **nodes = services_sorted(external.view, LOCAL, &count)
    if nodes == NULL:
        making.failed = 1
        return
    for i in range(count):
        making.length = nodes[i].length + apex.zone.length
        if making.length > NAME_MAX:
            continue
        memcpy(making.name, nodes[i].key, nodes[i].length)
        memcpy(making.name + nodes[i].length, apex.zone.wire, apex.zone.length)
        making.result.node = <ServiceNode *>nodes[i]
        making.result.record = nodes[i].record
        if external.headless and nodes[i].record.external_count == 0 and nodes[i].record.flags & SERVICE_HEADLESS:
            making.result.found = FOUND_ENDPOINTS
            if not external.view.no_endpoints:
                put_headless(making)
        else:
            making.result.found = FOUND_CLUSTER_IP
            put_external(making)
    free(nodes)


cdef void make(Making *making, uint32_t serial) noexcept nogil:
    """All rows; the SOA alone for a client whose serial is not 0, and not below the zone's."""
    cdef const External *external = making.external
    cdef const Apex *apex = making.apex
    cdef uint8_t soa[530]
    soa_write(soa, external, apex)
    rows_put(making.rows, TYPE_SOA, external.ttl, apex.zone.wire, apex.zone.length, soa, apex.soa_length)
    if serial != 0 and serial >= external.view.cluster.external_serial:
        return
    put_server(making)
    put_services(making)
    rows_put(making.rows, TYPE_SOA, external.ttl, apex.zone.wire, apex.zone.length, soa, apex.soa_length)


def zone_transfer(ExternalZones handler not None, bytes zone not None, serial):
    cdef External *external = &handler.external
    cdef uint32_t number = serial if serial is not None else 0
    cdef uint32_t i
    cdef Making making
    memset(&making, 0, sizeof(making))
    making.external = external
    for i in range(external.zones.count):
        if external.zones.names[i].wire[: external.zones.names[i].length] == zone:
            making.apex = &external.apexes[i]
    if making.apex == NULL:
        return None
    making.rows = rows_new()
    if making.rows == NULL:
        raise MemoryError
    with nogil:
        cluster_lock(external.view.cluster)
        make(&making, number)
        cluster_unlock(external.view.cluster)
    transfer = transfer_of(rows_source(making.rows))
    if making.failed or rows_failed(making.rows):
        raise MemoryError
    return transfer
