"""Look-ups, snapshots and the Python side of the record index. The contract is in index/index.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcmp, memcpy, memset
from fastdns.system.atomic cimport atomic_add32, atomic_load_pointer, atomic_peek8, atomic_peek32
from fastdns.system.memory cimport fetch_line
from fastdns.index.nodes cimport (INDEX_BUSY, INDEX_OK, INDEX_OUTSIDE, INDEX_RECORDS, INDEX_TYPES, INDEX_TYPES_MAX, NODE_CNAME, NODE_CUT, NODE_DNAME,
                                  NODE_WILDCARD, IndexCore, IndexNode, IndexRecord, IndexTable, RRset, node_rrset, node_rrsets, rrset_record,
                                  slot_node)
from fastdns.index.publish cimport (index_begin, index_collect, index_end, index_holds, index_lock, index_put, index_release, index_swap, index_table,
                                    index_table_put, index_unlock)
from fastdns.index.node_file cimport FILE_SPAN, NodeFile, node_file_cool, node_file_has, node_file_pin, node_file_unpin
from fastdns.index.slot_file cimport SlotFile, slot_file_cool
from fastdns.index.table cimport node_release, table_free
from fastdns._wire cimport NAME_MAX, TYPE_ANY, TYPE_CNAME, TYPE_DNAME, TYPE_DS, TYPE_NS, Name, octets_equal, wire_name_hash, wire_read_name
from functools import partial
from weakref import WeakSet
from fastdns.telemetry.metrics import Metric
from fastdns._wire import name_text, name_wire

cdef enum:
    PIECE = 1 << 14             # octets of a file that a snapshot does not look into when it orders nodes
    PIECES = FILE_SPAN // PIECE
    READ_NODES = 4096           # a file's pages of so many nodes are memory at once, where all are read


# ---- look-up ----

cdef inline uint32_t first_slot(const IndexTable *table, uint32_t hash) noexcept nogil:
    return <uint32_t>((<uint64_t>hash * table.capacity) >> 32)


cdef inline IndexNode *probe(const IndexTable *table, uint32_t hash, const uint8_t *lower, uint32_t length) noexcept nogil:
    cdef uint32_t i = first_slot(table, hash)
    cdef IndexNode *node
    while True:
        # The pointer is loaded first: the writer stores the hash before it releases the pointer.
        node = <IndexNode *>atomic_load_pointer(<void **>&table.slots[i].node)
        if node == NULL:
            return NULL
        if atomic_peek32(&table.slots[i].hash) == hash:
            node = slot_node(table, node)
            if node != NULL and node.length == length and octets_equal(node.name, lower, length):
                return node
        i += 1
        if i == table.capacity:
            i = 0


cdef inline uint32_t prefetch_hash(const IndexTable *table, const Name *name) noexcept nogil:
    cdef uint32_t most = atomic_peek8(&table.most_labels)
    return name.hash[name.labels - most if name.labels > most else 0]


cdef void table_fetch_slot(const IndexTable *table, const Name *name) noexcept nogil:
    fetch_line(&table.slots[first_slot(table, prefetch_hash(table, name))])


cdef bint table_fetch_node(const IndexTable *table, const Name *name) noexcept nogil:
    cdef uint32_t hash = prefetch_hash(table, name), i = first_slot(table, hash)
    cdef IndexNode *node
    while True:
        node = <IndexNode *>atomic_load_pointer(<void **>&table.slots[i].node)
        if node == NULL:
            return False
        if atomic_peek32(&table.slots[i].hash) == hash:
            node = slot_node(table, node)
            if node != NULL:
                fetch_line(node)
                fetch_line(<const uint8_t *>node + 64)
                return True
        i += 1
        if i == table.capacity:
            i = 0


cdef IndexNode *index_exact(const IndexCore *index, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil:
    return probe(index_current(index), hash, lower, length)


cdef IndexNode *table_exact(const IndexTable *table, const uint8_t *lower, uint32_t length, uint32_t hash) noexcept nogil:
    return probe(table, hash, lower, length)


cdef IndexNode *table_wildcard(const IndexTable *table, const uint8_t *suffix, uint32_t length) noexcept nogil:
    """The node of "*" below a suffix (lower case)."""
    cdef uint8_t name[NAME_MAX + 2]
    if length + 2 > NAME_MAX:
        return NULL
    name[0] = 1
    name[1] = c'*'
    memcpy(name + 2, suffix, length)
    return probe(table, wire_name_hash(name), name, length + 2)


cdef IndexNode *index_wildcard(const IndexCore *index, const Name *name) noexcept nogil:
    if name.labels == 0:
        return NULL
    return table_wildcard(index_current(index), name.lower + name.offset[1], name.length - name.offset[1])

cdef inline IndexNode *suffix(const IndexTable *table, const Name *name, uint32_t label) noexcept nogil:
    return probe(table, name.hash[label], name.lower + name.offset[label], name.length - name.offset[label])


cdef IndexOutcome find_cut(const IndexTable *table, const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil:
    """The topmost delegation or DNAME between the apex and the name; FOUND_HIT when there is none."""
    cdef int label = <int>name.labels - atomic_peek8(&table.cut_least)
    cdef int last = <int>name.labels - atomic_peek8(&table.cut_most)
    cdef IndexNode *node
    while label >= 0 and label >= last:
        node = suffix(table, name, label)
        if node == NULL:
            return FOUND_HIT            # then no descendant exists either
        out.node = node
        out.label = <uint8_t>label
        if atomic_peek8(&node.flags) & NODE_CUT and not (label == 0 and qtype == TYPE_DS):
            out.rrset = node_rrset(node, TYPE_NS)
            return FOUND_DELEGATION
        if atomic_peek8(&node.flags) & NODE_DNAME and label > 0:
            out.rrset = node_rrset(node, TYPE_DNAME)
            return FOUND_DNAME
        label -= 1
    return FOUND_HIT


cdef inline IndexOutcome choose_rrset(IndexNode *node, uint16_t qtype, IndexResult *out) noexcept nogil:
    out.node = node
    if qtype == TYPE_ANY and node.rrsets:
        return FOUND_HIT
    out.rrset = node_rrset(node, qtype)
    if out.rrset != NULL:
        return FOUND_HIT
    if atomic_peek8(&node.flags) & NODE_CNAME:
        out.rrset = node_rrset(node, TYPE_CNAME)
        return FOUND_CNAME
    return FOUND_NODATA


cdef IndexOutcome index_find(const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil:
    return table_find(index_current(index), index, name, qtype, out)


cdef IndexOutcome table_find(const IndexTable *table, const IndexCore *index, const Name *name, uint16_t qtype, IndexResult *out) noexcept nogil:
    cdef IndexNode *node = NULL
    cdef IndexOutcome outcome
    cdef uint32_t label = 0, apex, most
    memset(out, 0, sizeof(IndexResult))
    if not index_holds(index, name):
        return FOUND_OUTSIDE
    if atomic_peek32(&table.cuts):
        outcome = find_cut(table, index, name, qtype, out)
        if outcome != FOUND_HIT:
            return outcome
    most = atomic_peek8(&table.most_labels)
    if name.labels > most:
        label = name.labels - most
    apex = name.labels - index.origin.labels
    while label <= apex:
        node = suffix(table, name, label)
        if node != NULL:
            break
        label += 1
    out.label = <uint8_t>label
    if node == NULL:
        return FOUND_NXDOMAIN
    if label == 0:
        return choose_rrset(node, qtype, out)
    out.node = NULL
    out.encloser = node
    if atomic_peek8(&node.flags) & NODE_WILDCARD:
        node = table_wildcard(table, name.lower + name.offset[label], name.length - name.offset[label])
        if node != NULL:
            out.wildcard = 1
            return choose_rrset(node, qtype, out)
    return FOUND_NXDOMAIN

# ---- snapshots ----

cdef int split(const uint8_t *name, uint8_t *offset) noexcept nogil:
    cdef int labels = 0
    cdef uint32_t at = 0
    while name[at] != 0:
        offset[labels] = <uint8_t>at
        labels += 1
        at += name[at] + 1
    return labels


cdef int compare_names(const uint8_t *a, const uint8_t *b) noexcept nogil:
    """Canonical order of lower-case names (RFC 4034 6.1): labels are compared from the right, octet by octet; a parent precedes its descendants."""
    cdef uint8_t a_offset[128]
    cdef uint8_t b_offset[128]
    cdef int i = split(a, a_offset), j = split(b, b_offset), order
    cdef const uint8_t *x
    cdef const uint8_t *y
    while i > 0 and j > 0:
        i -= 1
        j -= 1
        x = a + a_offset[i]
        y = b + b_offset[j]
        order = memcmp(x + 1, y + 1, x[0] if x[0] < y[0] else y[0])
        if order == 0:
            order = <int>x[0] - <int>y[0]
        if order != 0:
            return order
    return i - j


cdef int compare_nodes(const void *a, const void *b) noexcept nogil:
    return compare_names((<IndexNode **>a)[0].name, (<IndexNode **>b)[0].name)


cdef IndexSnapshot *index_snapshot(IndexCore *index, bint sorted) noexcept nogil:
    cdef IndexSnapshot *snapshot
    cdef IndexTable *table
    cdef IndexNode *node
    cdef NodeFile *file
    cdef uint32_t i
    index_lock(index)
    table = index.table
    file = <NodeFile *>table.file
    snapshot = <IndexSnapshot *>malloc(sizeof(IndexSnapshot) + <uint64_t>table.names * sizeof(void *))
    if snapshot != NULL:
        snapshot.count = 0
        snapshot.file = file
        if file != NULL:
            node_file_pin(file)
        table.work += table.capacity
        for i in range(table.capacity):
            node = slot_node(table, table.slots[i].node)
            if node_file_has(file, node) or node != NULL and node.rrsets:
                if not node_file_has(file, node):
                    atomic_add32(&node.refs, 1)
                snapshot.nodes[snapshot.count] = node
                snapshot.count += 1
    if table.slot_file != NULL:
        slot_file_cool(<SlotFile *>table.slot_file)
    index_release(index)
    if snapshot != NULL and sorted:
        qsort(snapshot.nodes, snapshot.count, sizeof(void *), compare_nodes)
    elif snapshot != NULL and file != NULL:
        order_by_place(snapshot, file)
    return snapshot


cdef void order_by_place(IndexSnapshot *snapshot, const NodeFile *file) noexcept nogil:
    """Nodes that are near each other in the file, one after the other: so a reader has few of its pages at a time, and meets them in their order.
    Without memory they stay as they are."""
    # Behind the nodes of each piece of the file; in the end, those that are not in it.
    cdef uint32_t *ends = <uint32_t *>calloc(PIECES + 1, sizeof(uint32_t))
    cdef IndexNode **ordered = <IndexNode **>malloc(<uint64_t>snapshot.count * sizeof(void *) + 1)
    cdef uint32_t i, piece, before = 0, count
    if ends != NULL and ordered != NULL:
        for i in range(snapshot.count):
            ends[piece_of(file, snapshot.nodes[i])] += 1
        for piece in range(<uint32_t>PIECES + 1):
            count = ends[piece]
            ends[piece] = before
            before += count
        for i in range(snapshot.count):
            piece = piece_of(file, snapshot.nodes[i])
            ordered[ends[piece]] = snapshot.nodes[i]
            ends[piece] += 1
        memcpy(snapshot.nodes, ordered, <uint64_t>snapshot.count * sizeof(void *))
    free(ordered)
    free(ends)


cdef inline uint32_t piece_of(const NodeFile *file, const IndexNode *node) noexcept nogil:
    return <uint32_t>((<uintptr_t>node - <uintptr_t>file.base) // PIECE) if node_file_has(file, node) else PIECES


cdef void snapshot_read(const IndexSnapshot *snapshot, uint32_t i) noexcept nogil:
    if snapshot.file != NULL and i % READ_NODES == READ_NODES - 1:
        node_file_cool(<NodeFile *>snapshot.file)


cdef void snapshot_release(IndexSnapshot *snapshot) noexcept nogil:
    cdef uint32_t i
    for i in range(snapshot.count):
        if not node_file_has(<NodeFile *>snapshot.file, snapshot.nodes[i]):
            node_release(snapshot.nodes[i])
    if snapshot.file != NULL:
        node_file_unpin(<NodeFile *>snapshot.file)
    free(snapshot)


# ---- Python ----

cdef object indexes = WeakSet()


def totals():
    found = dict.fromkeys(("names", "nodes", "records", "bytes", "pending", "work"), 0)
    for index in list(indexes):
        for key, value in index.statistics.items():
            found[key] += value
    return found


def announce():
    """Sets the gauges of the memory of all indexes."""
    for key, text in (("bytes", "Memory of all record indexes."), ("records", "Records in all record indexes.")):
        Metric("fastdns_index_" + key, text, "gauge").watch((), partial(total, key))


def total(key):
    return totals()[key]


announce()

OUTCOMES = ("hit", "nodata", "cname", "dname", "delegation", "nxdomain", "outside")


cdef list read_rrset(const IndexNode *node, const RRset *rrset):
    cdef IndexRecord record
    cdef const uint8_t *entry = NULL
    cdef uint32_t _i
    found = []
    for _i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        found.append((record.type, record.ttl, (<const char *>record.rdata)[:record.rdlength]))
    return found


cdef list read_node(const IndexNode *node):
    cdef const RRset *rrset = node_rrsets(node)
    cdef uint32_t i
    found = []
    for i in range(node.rrsets):
        found += read_rrset(node, &rrset[i])
    return found


cdef class Found:
    cdef readonly str outcome
    cdef readonly bytes owner
    cdef readonly bint wildcard
    cdef readonly list records

    def __repr__(self):
        return f"Found({self.outcome!r}, owner={self.owner!r}, wildcard={self.wildcard}, records={self.records!r})"


cdef class Index:

    def __cinit__(self, origin=".", *, bint flat=False):
        self.core = <IndexCore *>calloc(1, sizeof(IndexCore))
        if self.core == NULL:
            raise MemoryError
        self.core.flat = flat
        self._load(origin, &self.core.origin)
        self.origin = name_text((<const char *>self.core.origin.lower)[:self.core.origin.length])
        if index_begin(self.core) < 0:
            raise MemoryError
        indexes.add(self)

    def __dealloc__(self):
        if self.core == NULL:
            return
        # No worker reads the index: its owner holds a reference until all workers have detached.
        with nogil:
            index_end(self.core)
        free(self.core)

    cdef int _load(self, object name, Name *out) except -1:
        cdef bytes wire = name_wire(name) if isinstance(name, str) else name
        cdef uint32_t at = 0
        if wire_read_name(wire, <uint32_t>len(wire), &at, out) < 0 or at != <uint32_t>len(wire):
            raise ValueError(f"not a name in wire form: {wire!r}")
        return 0

    cdef int _publish(self, IndexTable **table, object name, object records) except -1:
        """Puts a name's records into a private table, or (table NULL) into the published one."""
        cdef Name owner
        cdef IndexRecord *drafts
        cdef uint32_t i = 0
        cdef Py_ssize_t size
        cdef int status
        cdef bytes octets
        self._load(name, &owner)
        rows = list(records)
        drafts = <IndexRecord *>malloc((len(rows) + 1) * sizeof(IndexRecord))
        if drafts == NULL:
            raise MemoryError
        try:
            for kind, ttl, octets in rows:
                size = len(octets)
                if size > 65535:
                    raise ValueError(f"rdata of {size} octets")
                if not 0 <= ttl <= 0x7FFFFFFF:
                    raise ValueError(f"a TTL of {ttl} seconds")
                drafts[i].type = kind
                drafts[i].ttl = ttl
                drafts[i].rdlength = <uint16_t>size
                drafts[i].rdata = octets            # rows keeps it
                i += 1
            if table != NULL:
                status = index_table_put(self.core, table, &owner, drafts, i)
            else:
                with nogil:
                    index_lock(self.core)
                    status = index_put(self.core, &owner, drafts, i)
                    index_release(self.core)
        finally:
            free(drafts)
        if status == INDEX_BUSY:
            raise RuntimeError("a worker does not end its batch")
        if status == INDEX_OUTSIDE:
            raise ValueError(f"{name_text((<const char *>owner.wire)[:owner.length])} is not in {self.origin}")
        if status == INDEX_TYPES:
            raise ValueError(f"more than {INDEX_TYPES_MAX} types at one name")
        if status == INDEX_RECORDS:
            raise ValueError("more than 65535 records of one type at one name")
        if status != INDEX_OK:
            raise MemoryError
        return 0

    def put(self, name, records):
        self._publish(NULL, name, records)
        with nogil:
            index_lock(self.core)
            index_unlock(self.core, 0)

    def remove(self, name):
        self.put(name, ())

    def update(self, changes):
        try:
            for name, records in changes:
                self._publish(NULL, name, records)
        finally:
            with nogil:
                index_lock(self.core)
                index_unlock(self.core, 1000)

    def replace(self, names):
        cdef IndexTable *table = index_table(self.core)
        if table == NULL:
            raise MemoryError
        try:
            for name, records in names:
                self._publish(&table, name, records)
        except BaseException:
            table_free(table)
            raise
        with nogil:
            index_lock(self.core)
            index_swap(self.core, table)
            index_unlock(self.core, 1000)

    def get(self, name):
        cdef Name owner
        cdef IndexNode *node
        self._load(name, &owner)
        with nogil:
            index_lock(self.core)
        try:
            node = index_exact(self.core, owner.lower, owner.length, owner.hash[0])
            return read_node(node) if node != NULL else []
        finally:
            index_release(self.core)

    def find(self, name, uint16_t qtype):
        cdef Name owner
        cdef IndexResult result
        cdef Found found = Found()
        self._load(name, &owner)
        with nogil:
            index_lock(self.core)
        try:
            found.outcome = OUTCOMES[<int>index_find(self.core, &owner, qtype, &result)]
            found.wildcard = result.wildcard
            found.owner = (<const char *>result.node.name)[:result.node.length] if result.node != NULL else None
            if result.rrset != NULL:
                found.records = read_rrset(result.node, result.rrset)
            else:
                found.records = read_node(result.node) if found.outcome == "hit" else []
        finally:
            index_release(self.core)
        return found

    def snapshot(self, *, bint sorted=True):
        cdef Snapshot snapshot = Snapshot()
        cdef IndexSnapshot *taken
        with nogil:
            taken = index_snapshot(self.core, sorted)
        if taken == NULL:
            raise MemoryError
        snapshot.snapshot = taken
        return snapshot

    def collect(self):
        cdef uint64_t left
        with nogil:
            index_lock(self.core)
            left = index_collect(self.core)
            index_release(self.core)
        return left

    @property
    def statistics(self):
        cdef IndexTable *table
        with nogil:
            index_lock(self.core)
        table = self.core.table
        found = {"names": table.names, "nodes": table.live, "records": table.records, "bytes": table.bytes,
                 "pending": self.core.pending, "work": table.work}
        index_release(self.core)
        return found


cdef class Snapshot:
    cdef IndexSnapshot *snapshot

    def __dealloc__(self):
        if self.snapshot != NULL:
            snapshot_release(self.snapshot)

    def __len__(self):
        return self.snapshot.count

    def __iter__(self):
        cdef uint32_t i
        for i in range(self.snapshot.count):
            name = (<const char *>self.snapshot.nodes[i].name)[:self.snapshot.nodes[i].length]
            for kind, ttl, rdata in read_node(self.snapshot.nodes[i]):
                yield name, kind, ttl, rdata
