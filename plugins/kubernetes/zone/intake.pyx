"""All objects of a zone at once, without the GIL and without an object of Python for each: see zone/objects.pxd for the records."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport fetch_line
from fastdns.api.records cimport (NODE_APEX, Index, IndexNode, IndexRecord, IndexSnapshot, RRset, index_snapshot, node_rrset, rrset_record,
                                  snapshot_read, snapshot_release)
from fastdns.plugins.kubernetes.decode.fields cimport DECODED, NO_MEMORY, Scratch, scratch_free, scratch_init
from fastdns.plugins.kubernetes.decode.objects cimport KIND_COUNT, Kind, Object, Sink, Span
from fastdns.plugins.kubernetes.decode.protobuf cimport skim_object
from fastdns.plugins.kubernetes.store.memory cimport AHEAD, LINE
from fastdns.plugins.kubernetes.zone.objects cimport PART_HEAD, TYPE_OBJECT

cdef enum:
    PART_OCTETS = 2                 # before a part of a message: kind, and which part
    LINES = 3                       # of a node that the CPU fetches while others are read, twice as far ahead: most are not larger
    PART_LINES = 2                  # that a part of an object has, about; and of the parts of one object, at most
    LINES_MOST = 32
    MALFORMED = -1
    PARTS = -2                      # no head, several, parts of several kinds, or less than one
    MEMORY = -3


cdef struct Intake:
    Scratch scratch
    IndexRecord *parts              # of one object, but for its head
    uint32_t count
    uint32_t capacity
    uint8_t *message
    uint64_t size
    uint32_t kinds                  # bits of those that are wanted
    bint pod_labels
    uint64_t objects


cdef int by_octets(const void *a, const void *b) noexcept nogil:
    cdef const IndexRecord *x = <const IndexRecord *>a
    cdef const IndexRecord *y = <const IndexRecord *>b
    cdef int order = memcmp(x.rdata, y.rdata, min(x.rdlength, y.rdlength))
    return order if order != 0 else <int>x.rdlength - <int>y.rdlength


cdef bint reserve(Intake *intake, uint32_t parts, uint64_t octets) noexcept nogil:
    cdef void *grown
    if parts > intake.capacity:
        grown = realloc(intake.parts, <uint64_t>parts * 2 * sizeof(IndexRecord))
        if grown == NULL:
            return False
        intake.parts = <IndexRecord *>grown
        intake.capacity = parts * 2
    if octets > intake.size:
        grown = realloc(intake.message, octets * 2)
        if grown == NULL:
            return False
        intake.message = <uint8_t *>grown
        intake.size = octets * 2
    return True


cdef int join(Intake *intake, const IndexNode *node, const RRset *rrset, int *kind, Span *body) noexcept nogil:
    """The message of a node's records: the head, then the other parts in the order of their octets."""
    cdef const uint8_t *entry = NULL
    cdef IndexRecord record, head
    cdef uint64_t octets = 0
    cdef uint32_t heads = 0, i, used
    cdef bint ordered = True        # as they usually are
    intake.count = 0
    if not reserve(intake, rrset.count, 0):
        return MEMORY
    for i in range(rrset.count):
        entry = rrset_record(node, rrset, entry, &record)
        if record.rdlength < PART_OCTETS:
            return PARTS
        octets += record.rdlength
        if record.rdata[1] == PART_HEAD:
            head = record
            heads += 1
        else:
            ordered = ordered and (intake.count == 0 or by_octets(&intake.parts[intake.count - 1], &record) <= 0)
            intake.parts[intake.count] = record
            intake.count += 1
    if heads != 1:
        return PARTS
    if octets > 0x7FFFFFFFu or not reserve(intake, 0, octets + 1):
        return MEMORY
    if not ordered:
        qsort(intake.parts, intake.count, sizeof(IndexRecord), by_octets)
    kind[0] = head.rdata[0]
    used = head.rdlength - PART_OCTETS
    memcpy(intake.message, head.rdata + PART_OCTETS, used)
    for i in range(intake.count):
        if intake.parts[i].rdata[0] != head.rdata[0]:
            return PARTS
        memcpy(intake.message + used, intake.parts[i].rdata + PART_OCTETS, intake.parts[i].rdlength - PART_OCTETS)
        used += intake.parts[i].rdlength - PART_OCTETS
    body.data = <const char *>intake.message
    body.length = used
    return 0


cdef int take_node(Intake *intake, const IndexNode *node, Sink sink) noexcept nogil:
    cdef const RRset *rrset = node_rrset(node, TYPE_OBJECT)
    cdef const Object *object = NULL
    cdef Span body, version
    cdef int kind = 0, status
    if rrset == NULL or node.flags & NODE_APEX:
        return 0
    status = join(intake, node, rrset, &kind, &body)
    if status < 0 or kind >= KIND_COUNT or not intake.kinds >> kind & 1:
        return status
    status = skim_object(<Kind>kind, body, intake.pod_labels, &intake.scratch, &object, &version)
    if status != DECODED:
        return MEMORY if status == NO_MEMORY else MALFORMED
    if sink.calls.upsert(sink.self_, <Kind>kind, object) < 0:
        return MEMORY
    intake.objects += 1
    return 0


cdef void fetch_lines(const IndexNode *node, uint32_t first, uint32_t end) noexcept nogil:
    cdef uint32_t i
    for i in range(first, end):
        fetch_line(<const uint8_t *>node + i * LINE)


cdef void fetch_ahead(const IndexSnapshot *snapshot, uint32_t i) noexcept nogil:
    """What is needed of nodes soon: how long one is, its first lines tell."""
    cdef const RRset *rrset
    if i + 2 * AHEAD < snapshot.count:
        fetch_lines(snapshot.nodes[i + 2 * AHEAD], 0, LINES)
    if i + AHEAD < snapshot.count:
        rrset = node_rrset(snapshot.nodes[i + AHEAD], TYPE_OBJECT)
        if rrset != NULL and rrset.count > 1:
            fetch_lines(snapshot.nodes[i + AHEAD], LINES, min(<uint32_t>rrset.count * PART_LINES, <uint32_t>LINES_MOST))


def upsert_all(Sink sink not None, Index index not None, kinds, bint pod_labels=False):
    cdef IndexSnapshot *snapshot
    cdef Intake intake
    cdef uint32_t i = 0
    cdef int status = 0
    intake.parts = NULL
    intake.message = NULL
    intake.capacity = intake.count = intake.kinds = 0
    intake.size = intake.objects = 0
    intake.pod_labels = pod_labels
    for kind in kinds:
        intake.kinds |= <uint32_t>1 << <int>kind
    scratch_init(&intake.scratch)
    with nogil:
        snapshot = index_snapshot(index.core, False)
        if snapshot == NULL:
            status = MEMORY
        else:
            while status == 0 and i < snapshot.count:
                fetch_ahead(snapshot, i)
                status = take_node(&intake, snapshot.nodes[i], sink)
                snapshot_read(snapshot, i)
                i += 1
            snapshot_release(snapshot)
        scratch_free(&intake.scratch)
        free(intake.parts)
        free(intake.message)
    if status == MEMORY:
        raise MemoryError
    if status < 0:
        raise ValueError("an object has no head, or several" if status == PARTS else "malformed object")
    return intake.objects
