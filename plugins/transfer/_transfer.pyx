"""Where the records of transfers come from: rows from Python, snapshots of an index. The contract is in _transfer.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.api.names cimport Name
from fastdns.api.wire cimport TYPE_SOA, load32, wire_read_name
from fastdns.api.records cimport (NODE_APEX, Index, IndexCore, IndexNode, IndexRecord, IndexSnapshot, RRset, index_snapshot, node_rrset, node_rrsets,
                                  rrset_record, snapshot_release)
from fastdns.plugins.transfer._source cimport TransferRecord, TransferSource
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source


# ---- rows ----

cdef int add_row(Rows *rows, bytes owner, uint16_t kind, uint32_t ttl, bytes rdata) except -1:
    cdef uint32_t at = 0
    cdef Name name
    if wire_read_name(owner, <uint32_t>len(owner), &at, &name) < 0 or at != <uint32_t>len(owner):
        raise ValueError(f"not a name in wire form: {owner!r}")
    if len(rdata) > 65535:
        raise ValueError(f"rdata of {len(rdata)} octets")
    rows_put(rows, kind, ttl, <const uint8_t *>owner, <uint32_t>len(owner), <const uint8_t *>rdata, <uint32_t>len(rdata))
    return 0


# ---- an index ----

cdef struct IndexSource:
    TransferSource base
    IndexSnapshot *snapshot     # sorted: the apex comes first
    const RRset *soa
    const uint8_t *entry        # the record given last
    uint32_t node
    uint16_t rrset
    uint16_t record             # of the RRset: the next one
    uint8_t state               # 0: SOA, 1: the rest, 2: SOA again, 3: end
    uint8_t only_soa


cdef inline void fill_record(TransferRecord *out, const IndexNode *node, const IndexRecord *record) noexcept nogil:
    out.owner = node.name
    out.owner_length = node.length
    out.type = record.type
    out.ttl = record.ttl
    out.rdata = record.rdata
    out.rdlength = record.rdlength


cdef int index_next(TransferSource *source, TransferRecord *out) noexcept nogil:
    cdef IndexSource *self = <IndexSource *>source
    cdef const IndexNode *node
    cdef const RRset *rrset
    cdef IndexRecord record
    if self.state == 0 or self.state == 2:
        rrset_record(self.snapshot.nodes[0], self.soa, NULL, &record)
        fill_record(out, self.snapshot.nodes[0], &record)
        self.state = 3 if self.only_soa else self.state + 1
        return 1
    while self.state == 1:
        if self.node == self.snapshot.count:
            self.state = 2
            return index_next(source, out)
        node = self.snapshot.nodes[self.node]
        if self.rrset == node.rrsets:
            self.node += 1
            self.rrset = 0
            continue
        rrset = node_rrsets(node) + self.rrset
        if self.record == rrset.count or rrset == self.soa:
            self.rrset += 1
            self.record = 0
            continue
        self.entry = rrset_record(node, rrset, self.entry if self.record else NULL, &record)
        self.record += 1
        fill_record(out, node, &record)
        return 1
    return 0


cdef void index_close(TransferSource *source) noexcept nogil:
    snapshot_release((<IndexSource *>source).snapshot)
    free(source)


cdef TransferSource *source_of_index(IndexCore *index, bint incremental, uint32_t serial, bint *memory) noexcept nogil:
    """NULL: the index has no SOA at its origin, or (memory) there is none."""
    cdef IndexSource *source
    cdef IndexSnapshot *snapshot = index_snapshot(index, True)
    cdef const RRset *soa
    cdef IndexRecord record
    memory[0] = snapshot == NULL
    if snapshot == NULL:
        return NULL
    soa = node_rrset(snapshot.nodes[0], TYPE_SOA) if snapshot.count and snapshot.nodes[0].flags & NODE_APEX else NULL
    source = <IndexSource *>calloc(1, sizeof(IndexSource)) if soa != NULL else NULL
    if source == NULL:
        memory[0] = soa != NULL
        snapshot_release(snapshot)
        return NULL
    rrset_record(snapshot.nodes[0], soa, NULL, &record)
    source.base.next = index_next
    source.base.close = index_close
    source.snapshot = snapshot
    source.soa = soa
    source.only_soa = incremental and record.rdlength >= 20 and load32(record.rdata + record.rdlength - 20) == serial
    return &source.base


# ---- Python ----

cdef object transfer_of(TransferSource *source):
    cdef Transfer transfer = Transfer.__new__(Transfer)
    transfer.source = source
    return transfer


cdef class Transfer:

    def __init__(self):
        raise TypeError("made by of_records, of_index or a provider")

    def __dealloc__(self):
        if self.source != NULL:
            self.source.close(self.source)

    cdef TransferSource *take(self):
        cdef TransferSource *source = self.source
        self.source = NULL
        return source

    @staticmethod
    def of_records(rows):
        cdef Rows *copied = rows_new()
        if copied == NULL:
            raise MemoryError
        transfer = transfer_of(rows_source(copied))
        for owner, kind, ttl, rdata in rows:
            add_row(copied, owner, kind, ttl, rdata)
        if rows_failed(copied):
            raise MemoryError
        return transfer

    @staticmethod
    def of_index(Index index not None, serial=None):
        cdef bint memory, incremental = serial is not None
        cdef uint32_t wanted = serial or 0
        cdef IndexCore *core = index.core
        cdef TransferSource *source
        with nogil:
            source = source_of_index(core, incremental, wanted, &memory)
        if source == NULL:
            if memory:
                raise MemoryError
            return None
        return transfer_of(source)

    def __iter__(self):
        """The records, once: reading them takes them."""
        cdef TransferSource *source = self.take()
        cdef TransferRecord record
        cdef int status
        if source == NULL:
            return
        try:
            while True:
                status = source.next(source, &record)
                if status < 0:
                    raise ValueError("the transfer broke off")
                if status == 0:
                    return
                yield ((<const char *>record.owner)[:record.owner_length], record.type, record.ttl,
                       (<const char *>record.rdata)[:record.rdlength])
        finally:
            source.close(source)
