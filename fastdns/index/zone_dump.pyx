"""Zones to files, natively: the version that serves as a whole, and differences between versions. The format is in index/zone_dump.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from fastdns.index.change cimport Difference, DifferenceSet, ZoneChange
from fastdns.index.index cimport IndexSnapshot, index_snapshot, snapshot_read, snapshot_release
from fastdns.index.nodes cimport IndexNode, IndexRecord, RRset, node_rrsets, rrset_record
from fastdns.index.publish cimport index_lock, index_release
from fastdns.index.zone cimport Zone
from fastdns.system.byteorder cimport store16, store32
from fastdns.system.hash cimport hash_octets
from fastdns.system.socket cimport write_all

cdef enum:
    FIRST_OCTETS = 4096


cdef struct Output:
    uint8_t *octets
    uint64_t used
    uint64_t size
    bint failed                     # memory ran out


cdef uint8_t *extend(Output *out, uint64_t length) noexcept nogil:
    """Where so many octets go; NULL, and noted, when memory ran out."""
    cdef uint64_t size = max(<uint64_t>FIRST_OCTETS, out.size)
    cdef void *grown
    if out.used + length > out.size:
        while size < out.used + length:
            size *= 2
        grown = realloc(out.octets, size)
        if grown == NULL:
            out.failed = True
            return NULL
        out.octets = <uint8_t *>grown
        out.size = size
    out.used += length
    return out.octets + out.used - length


cdef void put32(Output *out, uint32_t value) noexcept nogil:
    cdef uint8_t *at = extend(out, 4)
    if at != NULL:
        store32(at, value)


cdef void put_octets(Output *out, const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef uint8_t *at = extend(out, length)
    if at != NULL:
        memcpy(at, octets, length)


cdef void put_record(Output *out, uint16_t type, uint32_t ttl, const uint8_t *rdata, uint16_t rdlength) noexcept nogil:
    cdef uint8_t *at = extend(out, <uint64_t>RECORD_HEAD + rdlength)
    if at != NULL:
        store16(at, type)
        store32(at + 2, ttl)
        store16(at + 6, rdlength)
        memcpy(at + RECORD_HEAD, rdata, rdlength)


cdef uint64_t block_digest(uint32_t number, uint8_t kind, const uint8_t *content, uint32_t length) noexcept nogil:
    cdef uint64_t key[2]
    key[0] = 0x9E3779B97F4A7C15u ^ (<uint64_t>number << 8 | kind)
    key[1] = 0xC2B2AE3D27D4EB4Fu
    return hash_octets(content, length, key)


cdef void put_head(uint8_t *at, uint32_t number, uint8_t kind, const uint8_t *content, uint32_t length) noexcept nogil:
    """The head of a block. at has BLOCK_HEAD octets."""
    cdef uint64_t digest = block_digest(number, kind, content, length)
    store32(at, length)
    at[4] = kind
    store32(at + 5, <uint32_t>(digest >> 32))
    store32(at + 9, <uint32_t>digest)


# ---- whole zones ----

cdef struct Writer:
    Output out                      # a block
    int fd
    uint32_t blocks
    uint64_t octets
    uint64_t records


cdef uint64_t put_name(Output *out, const IndexNode *node) noexcept nogil:
    """Returns the number of its records."""
    cdef const RRset *rrset = node_rrsets(node)
    cdef const uint8_t *entry
    cdef IndexRecord record
    cdef uint32_t i, _j
    cdef uint64_t count = 0
    for i in range(node.rrsets):
        count += rrset[i].count
    put_octets(out, node.name, node.length)
    put32(out, <uint32_t>count)
    for i in range(node.rrsets):
        entry = NULL
        for _j in range(rrset[i].count):
            entry = rrset_record(node, &rrset[i], entry, &record)
            put_record(out, record.type, record.ttl, record.rdata, record.rdlength)
    return count


cdef int flush(Writer *w) noexcept nogil:
    """Writes what there is. 0, or errno; -1: memory ran out."""
    cdef int status = -1 if w.out.failed else write_all(w.fd, w.out.octets, w.out.used)
    if status == 0:
        w.octets += w.out.used
        w.out.used = 0
    return status


cdef int end_block(Writer *w, uint8_t kind) noexcept nogil:
    cdef uint32_t length
    if w.out.failed or w.out.used - BLOCK_HEAD > 0xFFFFFFFFu:
        return -1
    length = <uint32_t>(w.out.used - BLOCK_HEAD)
    put_head(w.out.octets, w.blocks, kind, w.out.octets + BLOCK_HEAD, length)
    w.blocks += 1
    return flush(w)


cdef int write_zone(Writer *w, const IndexSnapshot *snapshot, uint32_t names) noexcept nogil:
    cdef uint32_t i
    cdef int status
    put_octets(&w.out, <const uint8_t *>MAGIC, MAGIC_OCTETS)
    put32(&w.out, names)
    status = flush(w)
    extend(&w.out, BLOCK_HEAD)
    for i in range(snapshot.count):
        if status != 0:
            return status
        w.records += put_name(&w.out, snapshot.nodes[i])
        snapshot_read(snapshot, i)
        if w.out.used >= BLOCK_OCTETS:
            status = end_block(w, BLOCK_NAMES)
            extend(&w.out, BLOCK_HEAD)
    if status == 0 and w.out.used > BLOCK_HEAD:
        status = end_block(w, BLOCK_NAMES)
        extend(&w.out, BLOCK_HEAD)
    if status == 0:
        put32(&w.out, <uint32_t>(w.records >> 32))
        put32(&w.out, <uint32_t>w.records)
        status = end_block(w, BLOCK_END)
    return status


cdef class ZoneDump:
    cdef IndexSnapshot *snapshot
    cdef uint32_t names
    cdef readonly uint32_t blocks

    def __init__(self, Zone zone not None):
        with nogil:
            self.snapshot = index_snapshot(zone.state.index, False)
            index_lock(zone.state.index)
            self.names = zone.state.index.table.live
            index_release(zone.state.index)
        if self.snapshot == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.snapshot != NULL:
            with nogil:
                snapshot_release(self.snapshot)

    def write(self, int fd):
        cdef Writer w
        cdef int status
        w.out.octets = NULL
        w.out.used = w.out.size = w.octets = w.records = w.blocks = 0
        w.out.failed = False
        w.fd = fd
        with nogil:
            status = write_zone(&w, self.snapshot, self.names)
            free(w.out.octets)
        self.blocks = w.blocks
        if status < 0:
            raise MemoryError
        if status > 0:
            raise OSError(status, "cannot write the zone")
        return w.octets


# ---- differences ----

cdef void put_differences(Output *out, const DifferenceSet *known) noexcept nogil:
    cdef const Difference *one = known.first
    cdef uint64_t count_at = out.used
    cdef uint32_t count = 0
    put32(out, 0)
    while one != NULL:
        if not one.dead:
            put_octets(out, one.octets, one.owner_length)
            put_record(out, one.type, one.ttl, one.octets + one.owner_length + one.rdlength, one.rdlength)
            count += 1
        one = one.following
    if not out.failed:
        store32(out.octets + count_at, count)


def change_content(ZoneChange change not None) -> bytes:
    cdef Output out
    cdef const uint8_t *soa = change.differences.soa
    out.octets = NULL
    out.used = out.size = 0
    out.failed = False
    with nogil:
        put32(&out, change.differences.former)
        extend(&out, 6)
        if not out.failed:
            store32(out.octets + 4, change.differences.soa_ttl)
            store16(out.octets + 8, change.differences.soa_length)
        put_octets(&out, soa, change.differences.soa_length)
        put_differences(&out, &change.differences.deleted)
        put_differences(&out, &change.differences.added)
    try:
        if out.failed:
            raise MemoryError
        return (<const char *>out.octets)[:out.used]
    finally:
        free(out.octets)


def change_block(bytes content not None, uint32_t number) -> bytes:
    cdef uint8_t head[BLOCK_HEAD]
    put_head(head, number, BLOCK_CHANGE, content, <uint32_t>len(content))
    return (<const char *>head)[:BLOCK_HEAD] + content
