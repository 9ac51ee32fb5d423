"""Whole zones, for plugin transfer: copied in one go while the store's writer waits, so their records are of one moment."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset
from fastdns.api.names cimport Name, ZoneName, wire_name_copy, zones_match
from fastdns.api.wire cimport TYPE_SOA
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.records cimport SOA_OCTETS_MAX, soa_ttl, soa_write, store_serial
from fastdns.plugins.kubernetes.answer.view cimport View, ZONE_OBJECTS
from fastdns.plugins.kubernetes.decode.objects cimport KIND_SERVICE, KIND_SLICE
from fastdns.plugins.kubernetes.store.memory cimport load_count
from fastdns.plugins.kubernetes.store.records cimport Cluster
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_unlock
from fastdns.plugins.kubernetes.zone.content cimport Content, content_give, content_servers
from fastdns.plugins.kubernetes.zone.rows cimport RowSet, rowset_free, rowset_give
from fastdns.plugins.kubernetes.zone.trimmed cimport Trimmed, trimmed_dict, trimmed_free
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source
from fastdns.plugins.transfer._transfer cimport transfer_of

from fastdns._wire import name_text
from fastdns.plugins.kubernetes.zone.left_out import show

cdef enum:
    ADDRESSES = 5                   # records of a service or slice, as a guess


cdef bint give(const Content *content, bint current, uint32_t serial, Rows *into, Trimmed *trimmed) noexcept nogil:
    """All records; the SOA alone for a client that has this serial. False: memory ran out."""
    cdef uint8_t soa[SOA_OCTETS_MAX]
    cdef RowSet rows
    # The serial is that of ordinary zones here, whatever the zone, as in CoreDNS.
    cdef uint32_t own = store_serial(content.view, 0)
    cdef uint32_t length = soa_write(soa, content.view, own, content.zone, content.zone_length)
    cdef bint failed
    rows_put(into, TYPE_SOA, soa_ttl(content.view), content.zone, content.zone_length, soa, length)
    if current and serial == own:
        return True
    memset(&rows, 0, sizeof(RowSet))
    content_servers(content, True, &rows)
    rowset_give(&rows, into)
    failed = rows.failed
    rowset_free(&rows)
    failed |= not content_give(content, False, into, trimmed)
    rows_put(into, TYPE_SOA, soa_ttl(content.view), content.zone, content.zone_length, soa, length)
    trimmed.changed = 1
    return not failed


cdef const ZoneName *find_zone(const View *view, bytes zone) noexcept:
    cdef Name name
    wire_name_copy(&name, <const uint8_t *>zone, <int>len(zone))
    return zones_match(view.zones, &name)


def zone_size(ViewHandler handler not None, bytes zone not None):
    cdef const Cluster *cluster = handler.view.cluster
    if find_zone(&handler.view, zone) == NULL:
        return 0
    return 2 + ADDRESSES * (load_count(&cluster.count[<int>KIND_SERVICE]) + load_count(&cluster.count[<int>KIND_SLICE]))


def zone_transfer(ViewHandler handler not None, bytes zone not None, serial):
    cdef View *view = &handler.view
    cdef const uint8_t *wire = zone
    cdef int length = <int>len(zone)
    cdef const ZoneName *found = find_zone(view, zone)
    cdef Content content
    cdef Rows *rows
    cdef Trimmed trimmed
    cdef bint current = serial is not None, given
    cdef uint32_t number = serial if serial is not None else 0
    if found == NULL:
        return None
    if view.zone_flags[found - view.zones.names] & ZONE_OBJECTS:
        raise ValueError("not everything has been listed yet")  # it has a journal from the start on
    content.view = view
    content.zone = wire
    content.zone_length = length
    content.zone_flags = view.zone_flags[found - view.zones.names]
    rows = rows_new()
    if rows == NULL:
        raise MemoryError
    memset(&trimmed, 0, sizeof(Trimmed))
    with nogil:
        cluster_lock(view.cluster)
        given = give(&content, current, number, rows, &trimmed)
        cluster_unlock(view.cluster)
    transfer = transfer_of(rows_source(rows))
    try:
        if not given or rows_failed(rows):
            raise MemoryError
        if trimmed.changed:
            show("kubernetes", name_text((<const char *>found.wire)[:found.length]), trimmed_dict(&trimmed))
    finally:
        trimmed_free(&trimmed)
    return transfer
