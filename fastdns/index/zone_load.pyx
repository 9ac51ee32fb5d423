"""Zones from files, natively and without an object for each record. The format is in index/zone_dump.pxd.

Every bound is checked here and in `_wire`; the file is read, not mapped, so that one that somebody cuts meanwhile ends as a cut one does.
"""
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp
from fastdns.index.change cimport Differences, ZoneChange, differences_add, differences_delete, differences_soa
from fastdns.index.nodes cimport INDEX_MEMORY, INDEX_OK, IndexNode, IndexRecord, IndexSlot, IndexTable
from fastdns.index.publish cimport index_table_put
from fastdns.index.table cimport table_grow
from fastdns.index.version cimport ZONE_OK
from fastdns.index.zone cimport Zone, ZoneBuilder, ZoneDraft, zone_add, zone_failure
from fastdns.index.zone_dump cimport (BLOCK_CHANGE, BLOCK_END, BLOCK_HEAD, BLOCK_NAMES, HEAD_OCTETS, MAGIC, MAGIC_OCTETS, RECORD_HEAD, block_digest)
from fastdns.system.byteorder cimport load16, load32
from fastdns.system.memory cimport fetch_line
from fastdns.zonefile.rdata cimport rdata_valid
from fastdns._wire cimport CLASS_IN, TYPE_RRSIG, TYPE_SOA, Name, wire_read_name

cdef extern from "unistd.h" nogil:
    ssize_t pread(int fd, void *data, size_t length, int64_t offset)

cdef enum:                          # what reading comes to; errors of zones and of the index are between -1 and -99
    READ = 1
    OVER = 0                        # no whole block follows
    FAILED = -100                   # errno says why
    BROKEN = -101
    OTHER = -102                    # not such a file
    CUT = -103                      # no BLOCK_END
    COUNT = -104

cdef enum:
    TTL_MAX = 0x7FFFFFFF
    NAME_OCTETS = 12                # of a name with a record at least
    NAMES_AT_ONCE = 16


cdef struct Input:
    int fd
    uint64_t at                     # where the next block begins
    uint64_t size                   # of the file
    uint32_t number                 # of blocks that were read
    uint8_t kind                    # of the last block, its content and its length
    uint8_t *octets
    uint32_t length
    uint32_t capacity


cdef struct Reader:                 # of a block
    const uint8_t *octets
    uint32_t at
    uint32_t length


# ---- blocks ----

cdef int read_at(Input *input, void *out, uint32_t length) noexcept nogil:
    """READ, OVER where the file has fewer octets, or FAILED."""
    cdef uint64_t done = 0
    cdef ssize_t n
    if input.size - input.at < length:
        return OVER
    while done < length:
        n = pread(input.fd, <uint8_t *>out + done, length - done, <int64_t>(input.at + done))
        if n < 0:
            if errno == EINTR:
                continue
            return FAILED
        if n == 0:
            return OVER
        done += <uint64_t>n
    input.at += length
    return READ


cdef int next_block(Input *input) noexcept nogil:
    """READ, OVER (input.at is where the block would begin) or an error."""
    cdef uint8_t head[BLOCK_HEAD]
    cdef uint64_t start = input.at, digest
    cdef void *grown
    cdef uint32_t length
    cdef int status = read_at(input, head, BLOCK_HEAD)
    if status == READ:
        length = load32(head)
        if length > input.size - input.at:
            status = OVER
        elif length >= input.capacity:
            grown = realloc(input.octets, <uint64_t>length + 1)
            if grown == NULL:
                return INDEX_MEMORY
            input.octets = <uint8_t *>grown
            input.capacity = length + 1
    if status == READ:
        status = read_at(input, input.octets, length)
    if status == READ:
        digest = <uint64_t>load32(head + 5) << 32 | load32(head + 9)
        if block_digest(input.number, head[4], input.octets, length) != digest:
            status = OVER
    if status != READ:
        input.at = start
        return status
    input.kind = head[4]
    input.length = length
    input.number += 1
    return READ


cdef int take32(Reader *r, uint32_t *out) noexcept nogil:
    if r.length - r.at < 4:
        return BROKEN
    out[0] = load32(r.octets + r.at)
    r.at += 4
    return READ


cdef int take_record(Reader *r, IndexRecord *record) noexcept nogil:
    """A valid record, which is borrowed."""
    if r.length - r.at < RECORD_HEAD:
        return BROKEN
    record.type = load16(r.octets + r.at)
    record.ttl = load32(r.octets + r.at + 2)
    record.rdlength = load16(r.octets + r.at + 6)
    record.rdata = r.octets + r.at + RECORD_HEAD
    r.at += RECORD_HEAD
    if record.rdlength > r.length - r.at or record.ttl > TTL_MAX or not rdata_valid(record.type, record.rdata, record.rdlength):
        return BROKEN
    r.at += record.rdlength
    return READ


# ---- whole zones ----

cdef struct Named:
    Name owner
    uint32_t first                  # of its records in Batch.records
    uint32_t count


cdef struct Batch:                  # names that are put one after the other: the memory that one needs is fetched while others are worked on
    Named names[NAMES_AT_ONCE]
    uint32_t count
    IndexRecord *records
    uint32_t used
    uint32_t capacity


cdef int reserve(Batch *batch, uint32_t count, uint32_t left) noexcept nogil:
    """Makes room for the records of one more name, which there can be in so many octets."""
    cdef uint64_t capacity = 2 * <uint64_t>batch.capacity + 64
    cdef void *grown
    if <uint64_t>count * RECORD_HEAD > left or count == 0:
        return BROKEN
    if batch.used + <uint64_t>count > batch.capacity:
        capacity = max(capacity, batch.used + <uint64_t>count)
        grown = realloc(batch.records, capacity * sizeof(IndexRecord)) if capacity <= 0xFFFFFFFFu else NULL
        if grown == NULL:
            return INDEX_MEMORY
        batch.records = <IndexRecord *>grown
        batch.capacity = <uint32_t>capacity
    return READ


cdef int put_apex(ZoneBuilder *builder, const Name *owner, const IndexRecord *records, uint32_t count) noexcept nogil:
    cdef uint32_t i
    cdef int status
    for i in range(count):
        status = zone_add(builder, owner, records[i].type, CLASS_IN, records[i].ttl, records[i].rdata, records[i].rdlength)
        if status != ZONE_OK:
            return status
    return READ


cdef int put_name(ZoneBuilder *builder, const Name *owner, const IndexRecord *records, uint32_t count) noexcept nogil:
    """The records of another name, which are put as they are: they were so before."""
    cdef uint32_t i
    cdef int status
    for i in range(count):
        if records[i].type == TYPE_SOA or records[i].type == TYPE_RRSIG and load16(records[i].rdata) == TYPE_SOA:
            return BROKEN
    status = index_table_put(builder.index, &builder.table, owner, records, count)
    builder.records += count
    return READ if status == INDEX_OK else status if status == INDEX_MEMORY else BROKEN


cdef inline IndexSlot *slot_of(const IndexTable *table, uint32_t hash) noexcept nogil:
    return &table.slots[(<uint64_t>hash * table.capacity) >> 32]


cdef void fetch_parents(const IndexTable *table, const Batch *batch) noexcept nogil:
    """The nodes that are in the slots of the parents, if they are there already."""
    cdef const IndexNode *node
    cdef uint32_t i
    for i in range(batch.count):
        if batch.names[i].owner.labels:
            node = slot_of(table, batch.names[i].owner.hash[1]).node
            if node != NULL:
                fetch_line(node)


cdef int put_batch(ZoneBuilder *builder, Batch *batch) noexcept nogil:
    cdef const Name *origin = &builder.index.origin
    cdef const Named *one
    cdef uint32_t i
    cdef int status = READ
    fetch_parents(builder.table, batch)
    for i in range(batch.count):
        one = &batch.names[i]
        if one.owner.length == origin.length and memcmp(one.owner.lower, origin.lower, origin.length) == 0:
            status = put_apex(builder, &one.owner, batch.records + one.first, one.count)
        else:
            status = put_name(builder, &one.owner, batch.records + one.first, one.count)
        if status != READ:
            break
    batch.count = batch.used = 0
    return status


cdef int take_name(const IndexTable *table, Reader *r, Batch *batch) noexcept nogil:
    cdef Named *one = &batch.names[batch.count]
    cdef uint32_t i = 0
    cdef int status
    if wire_read_name(r.octets, r.length, &r.at, &one.owner) < 0:
        return BROKEN
    fetch_line(slot_of(table, one.owner.hash[0]))
    if one.owner.labels:
        fetch_line(slot_of(table, one.owner.hash[1]))
    status = take32(r, &one.count)
    if status == READ:
        status = reserve(batch, one.count, r.length - r.at)
    one.first = batch.used
    while status == READ and i < one.count:
        status = take_record(r, &batch.records[one.first + i])
        i += 1
    batch.used += i
    batch.count += 1
    return status


cdef int take_names(ZoneBuilder *builder, Reader *r, Batch *batch) noexcept nogil:
    cdef int status = READ
    while status == READ and r.at < r.length:
        status = take_name(builder.table, r, batch)
        if status == READ and (batch.count == NAMES_AT_ONCE or r.at == r.length):
            status = put_batch(builder, batch)
    return status


cdef int begin(ZoneBuilder *builder, Input *input) noexcept nogil:
    cdef uint8_t head[HEAD_OCTETS]
    cdef void *slots = builder.table.slots
    cdef uint64_t names
    cdef int status = read_at(input, head, HEAD_OCTETS)
    if status != READ or memcmp(head, MAGIC, MAGIC_OCTETS) != 0:
        return status if status < 0 else OTHER
    names = min(<uint64_t>load32(head + MAGIC_OCTETS), input.size // NAME_OCTETS)
    # It makes room for twice as many.
    if table_grow(builder.table, <uint32_t>min(names * 3 // 4, <uint64_t>TTL_MAX // 2)) < 0:
        return INDEX_MEMORY
    free(slots)
    return READ


cdef int read_zone(ZoneBuilder *builder, Input *input) noexcept nogil:
    cdef Reader reader
    cdef Batch *batch = <Batch *>calloc(1, sizeof(Batch))
    cdef int status = begin(builder, input) if batch != NULL else INDEX_MEMORY
    while status == READ:
        status = next_block(input)
        if status != READ:
            break
        reader.octets = input.octets
        reader.at = 0
        reader.length = input.length
        if input.kind == BLOCK_END:
            if input.length != 8 or (<uint64_t>load32(input.octets) << 32 | load32(input.octets + 4)) != builder.records:
                status = COUNT
            break
        status = take_names(builder, &reader, batch) if input.kind == BLOCK_NAMES else BROKEN
    if batch != NULL:
        free(batch.records)
    free(batch)
    return status


# ---- differences ----

cdef int take_differences(Differences *differences, Reader *r, bint added) noexcept nogil:
    cdef IndexRecord record
    cdef Name owner
    cdef uint32_t count
    cdef int status = take32(r, &count)
    while status == READ and count > 0:
        count -= 1
        if wire_read_name(r.octets, r.length, &r.at, &owner) < 0:
            return BROKEN
        status = take_record(r, &record)
        if status == READ:
            if added:
                status = differences_add(differences, &owner, record.type, record.ttl, record.rdata, record.rdlength)
            else:
                status = differences_delete(differences, &owner, record.type, record.ttl, record.rdata, record.rdlength)
            status = READ if status == ZONE_OK else status
    return status


cdef int take_change(Differences *differences, Reader *r, uint32_t *serial) noexcept nogil:
    """A change of the version with this serial, which becomes that of the next one."""
    cdef uint32_t former, ttl, rdlength
    cdef int status = take32(r, &former)
    if status == READ:
        status = take32(r, &ttl)
    if status != READ or former != serial[0] or r.length - r.at < 2:
        return BROKEN
    rdlength = load16(r.octets + r.at)
    r.at += 2
    if rdlength > r.length - r.at or rdlength < 22 or ttl > TTL_MAX or not rdata_valid(TYPE_SOA, r.octets + r.at, rdlength):
        return BROKEN
    if differences_soa(differences, ttl, r.octets + r.at, rdlength) != ZONE_OK:
        return BROKEN
    serial[0] = load32(r.octets + r.at + rdlength - 20)
    r.at += rdlength
    status = take_differences(differences, r, False)
    if status == READ:
        status = take_differences(differences, r, True)
    return BROKEN if status == READ and r.at != r.length else status


# ---- Python ----

ERRORS = {
    BROKEN: "is damaged",
    OTHER: "is no zone that this version has written",
    CUT: "is cut short, or damaged",
    COUNT: "has not the records that it should have",
}


cdef class ZoneFile:
    cdef Input input
    cdef readonly Zone zone
    cdef readonly uint64_t whole    # octets of the zone
    cdef readonly uint32_t changes

    def __init__(self, Zone zone not None, int fd, uint64_t size):
        self.zone = zone
        self.input.fd = fd
        self.input.size = size

    def __dealloc__(self):
        free(self.input.octets)

    cdef object failure(self, int status, const Name *at):
        if status == FAILED:
            return OSError(errno, "cannot read the zone")
        if status in ERRORS:
            return ValueError(ERRORS[status])
        return zone_failure(status, at, self.zone.origin)

    def read(self):
        cdef ZoneDraft draft = self.zone.draft()
        cdef int status
        with nogil:
            status = read_zone(draft.builder, &self.input)
        if status != READ:
            raise self.failure(CUT if status == OVER else status, &draft.builder.at)
        draft.finish()
        self.whole = self.input.at
        return draft

    def read_changes(self, uint32_t serial):
        cdef ZoneChange change = ZoneChange(self.zone, serial)
        cdef Reader reader
        cdef int status
        while True:
            with nogil:
                status = next_block(&self.input)
                if status == READ:
                    reader.octets = self.input.octets
                    reader.at = 0
                    reader.length = self.input.length
                    status = take_change(&change.differences, &reader, &serial) if self.input.kind == BLOCK_CHANGE else BROKEN
            if status == OVER:
                break
            if status != READ:
                raise self.failure(status, &change.differences.at)
            self.changes += 1
        if not self.changes:
            return None
        change.finish()
        return change

    @property
    def end(self):
        return self.input.at

    @property
    def blocks(self):
        return self.input.number
