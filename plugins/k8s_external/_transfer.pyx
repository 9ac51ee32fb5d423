"""The records of an external zone, for plugin transfer: copied in one go while the store's writer waits, so they are of one moment.

They are as many as CoreDNS sends: an address comes once for each port, and SRV records of headless services come twice.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport TYPE_A, TYPE_AAAA, TYPE_CNAME, TYPE_NS, TYPE_SOA, TYPE_SRV, store16
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.plugins.k8s_external._answer cimport Entries, Entry, entries_begin, entries_next, entries_skip, soa_write, target_write
from fastdns.plugins.k8s_external._external cimport Apex, External, ExternalZones
from fastdns.plugins.kubernetes.answer.chase cimport from_text
from fastdns.plugins.kubernetes.answer.name cimport Wanted
from fastdns.plugins.kubernetes.store.records cimport LOCAL, SERVICE_HEADLESS, ServiceNode, slice_ports, slice_text
from fastdns.plugins.kubernetes.answer.servers cimport OUTSIDE, OUTSIDE_HEADLESS, SERVERS_MAX, Server, servers_collect
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_unlock
from fastdns.plugins.kubernetes.zone.content cimport port_write, services_sorted
from fastdns.plugins.kubernetes.zone.selection cimport (SRV_EACH, SRV_FREE, ChosenEndpoint, Selection, selection_begin, selection_end,
                                                        selection_next, selection_rewind)
from fastdns.plugins.kubernetes.zone.trimmed cimport Trimmed, trimmed_dict, trimmed_free, trimmed_set
from fastdns.plugins.kubernetes.answer.view cimport FOUND_CLUSTER_IP, FOUND_ENDPOINTS, Result
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source
from fastdns.plugins.transfer._transfer cimport transfer_of

from fastdns._wire import name_text
from fastdns.plugins.kubernetes.zone.left_out import show

cdef struct Making:                 # what the rows are made of
    Rows *rows
    uint8_t failed                  # memory ran out beside them
    const External *external
    const Apex *apex
    Wanted wanted                   # any port
    Result result                   # the service at work
    uint8_t name[NAME_MAX]          # its name
    uint32_t length
    Trimmed trimmed

cdef struct Once:                   # what was there before
    uint64_t *slots
    uint32_t *counts                # how often, where that is asked for
    uint32_t mask


cdef uint32_t *find(Once *once, const uint8_t *first, uint32_t first_length, const uint8_t *second, uint32_t second_length, bint *there) noexcept nogil:
    """Adds the pair unless it is there, and returns its count."""
    cdef uint64_t hash = (hash_octets(first, first_length, hash_seed) * 3 ^ hash_octets(second, second_length, hash_seed)) | 1
    cdef uint32_t i = <uint32_t>(hash >> 32) & once.mask
    while once.slots[i] and once.slots[i] != hash:
        i = (i + 1) & once.mask
    there[0] = once.slots[i] != 0
    once.slots[i] = hash
    return &once.counts[i]


cdef bint is_new(Once *once, const uint8_t *first, uint32_t first_length, const uint8_t *second, uint32_t second_length) noexcept nogil:
    cdef bint there
    find(once, first, first_length, second, second_length, &there)
    return not there


cdef bint once_begin(Once *once, uint32_t count) noexcept nogil:
    """Makes room for so many entries of a service. False: memory ran out."""
    cdef uint32_t size = 64
    while size < count * 8:
        size *= 2
    once.mask = size - 1
    once.slots = <uint64_t *>calloc(size, sizeof(uint64_t))
    once.counts = <uint32_t *>calloc(size, sizeof(uint32_t))
    return once.slots != NULL and once.counts != NULL


cdef void once_end(Once *once) noexcept nogil:
    free(once.slots)
    free(once.counts)


# ---- rows ----

cdef void put_address(Making *making, const uint8_t *owner, uint32_t length, const Entry *entry) noexcept nogil:
    rows_put(making.rows, TYPE_A if entry.family == 4 else TYPE_AAAA, making.external.ttl, owner, length, entry.ip, 4 if entry.family == 4 else 16)


cdef void put_srv(Making *making, const uint8_t *owner, uint32_t owner_length, uint32_t weight, int port, const uint8_t *target, uint32_t length,
                  uint32_t times) noexcept nogil:
    cdef uint8_t rdata[6 + NAME_MAX]
    cdef uint32_t _i
    store16(rdata, 0)
    store16(rdata + 2, weight if weight else 1)
    store16(rdata + 4, <uint32_t>port)
    memcpy(rdata + 6, target, length)
    for _i in range(times):
        rows_put(making.rows, TYPE_SRV, making.external.view.ttl, owner, owner_length, rdata, 6 + length)


# ---- services with external addresses ----

cdef void put_external(Making *making) noexcept nogil:
    """Addresses; and one SRV record for the service and for each of its ports, whatever it has more.

    CoreDNS sends an address once for each port. All but the first are copies, which are bounded.
    """
    cdef Entries entries
    cdef Entry entry
    cdef uint8_t target[NAME_MAX + 1]
    cdef uint8_t owner[NAME_MAX]
    cdef uint32_t length, owner_length, strip, bare = 0
    cdef uint32_t copies = SRV_EACH + SRV_FREE // max(<uint32_t>making.result.record.external_count, 1u)
    entries_begin(&entries, making.external.view, &making.wanted, &making.result)
    while entries_next(&entries, &entry):
        if entries.address and entries.port > copies:
            entries_skip(&entries)
            continue
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
    cdef Selection selection
    cdef ChosenEndpoint one
    cdef Once once
    cdef uint32_t count = 0
    if not selection_begin(&selection, making.result.node.slices, True):
        making.failed = 1
        return
    while selection_next(&selection, &one):
        count += selection.port_count
    if once_begin(&once, count):
        count_ports(making, &selection, &once)
        selection_rewind(&selection)
        while selection_next(&selection, &one):
            put_endpoint(making, &selection, &once, &one, count)
        trimmed_set(&making.trimmed, making.result.node.world, making.result.node.key, making.result.node.length,
                    selection.endpoints_left_out + selection.ports_left_out)
    else:
        making.failed = 1
    once_end(&once)
    selection_end(&selection)


cdef void entry_of(Entry *entry, const Selection *selection, const ChosenEndpoint *one, uint32_t port) noexcept nogil:
    memset(entry, 0, sizeof(Entry))
    entry.slice = one.slice
    entry.endpoint = one.endpoint
    entry.family = one.endpoint.family
    entry.ip = &one.endpoint.ip[0]
    entry.port = &slice_ports(one.slice)[selection.ports[port]]
    entry.port_text = slice_text(one.slice)


cdef uint32_t write_port(uint8_t *owner, const Making *making, const Entry *entry) noexcept nogil:
    """The name of the entry's port; 0 for none."""
    return port_write(owner, entry.port_text, entry.port, making.name, making.length) if entry.port.name_length else 0


cdef void count_ports(Making *making, Selection *selection, Once *once) noexcept nogil:
    """Counts the entries of each port's name, which make the weights of its records."""
    cdef ChosenEndpoint one
    cdef Entry entry
    cdef uint8_t owner[NAME_MAX]
    cdef uint32_t length, i
    cdef bint there
    selection_rewind(selection)
    while selection_next(selection, &one):
        for i in range(selection.port_count if one.endpoint.family else 0):
            entry_of(&entry, selection, &one, i)
            length = write_port(owner, making, &entry)
            if length:
                find(once, <const uint8_t *>b"port", 4, owner, length, &there)[0] += 1


cdef void put_endpoint(Making *making, Selection *selection, Once *once, const ChosenEndpoint *one, uint32_t count) noexcept nogil:
    cdef Entry entry
    cdef uint8_t target[NAME_MAX]
    cdef uint8_t owner[NAME_MAX]
    cdef uint8_t key[2 + NAME_MAX]
    cdef uint32_t length, owner_length, i
    cdef bint there
    for i in range(selection.port_count):
        entry_of(&entry, selection, one, i)
        length = target_write(target, making.external.view, &making.result, &entry, making.apex.zone.wire, making.apex.zone.length)
        if entry.family == 0 or length == 0:
            return
        if is_new(once, <const uint8_t *>b"address", 7, entry.ip, 4 if entry.family == 4 else 16):
            put_address(making, making.name, making.length, &entry)
        put_address(making, target, length, &entry)
        if entry.port.number < 0:
            continue
        store16(key, <uint32_t>entry.port.number)
        memcpy(key + 2, target, length)
        if is_new(once, <const uint8_t *>b"service", 7, key, length + 2):
            put_srv(making, making.name, making.length, 100 // count, entry.port.number, target, length, 2)
        put_srv(making, target, length, 100, entry.port.number, target, length, 2)
        owner_length = write_port(owner, making, &entry)
        if owner_length and is_new(once, owner, owner_length, key, length + 2):
            put_srv(making, owner, owner_length, 100 // find(once, <const uint8_t *>b"port", 4, owner, owner_length, &there)[0], entry.port.number,
                    target, length, 1)


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
    making.trimmed.changed = 1      # the zone is whole
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
    try:
        if making.failed or rows_failed(making.rows):
            raise MemoryError
        if making.trimmed.changed:
            show("k8s_external", name_text(zone), trimmed_dict(&making.trimmed))
    finally:
        trimmed_free(&making.trimmed)
    return transfer
