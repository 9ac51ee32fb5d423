"""The zone of a cluster's objects; see objects.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.digest cimport HASH_SHA256, digest_of
from fastdns.api.names cimport NAME_MAX
from fastdns.plugins.kubernetes.answer.view cimport view_exposes, view_names
from fastdns.plugins.kubernetes.decode.fields cimport DECODED, NO_MEMORY, Scratch, scratch_free, scratch_init
from fastdns.plugins.kubernetes.decode.objects cimport (KIND_COUNT, KIND_IMPORT_SLICE, KIND_POD, KIND_SLICE, SOURCE_ZONE, Kind, Object, ObjectSink, Sink, Slice,
                                                        Span)
from fastdns.plugins.kubernetes.decode.protobuf cimport skim_object
from fastdns.plugins.kubernetes.store.encode cimport Output, encode_endpoint, encode_object, output_add, output_free
from fastdns.plugins.kubernetes.store.memory cimport table_next
from fastdns.plugins.kubernetes.store.records cimport LOCAL, NamespaceNode, PodRecord, SliceRecord, WORLDS
from fastdns.plugins.kubernetes.store.replay cimport replay_namespace, replay_pod, replay_service, replay_slice
from fastdns.plugins.kubernetes.zone.rows cimport rowset_clear, rowset_free, rowset_give, rowset_put, rowset_sort
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    NAMED = 512                     # octets of kind, namespace and name at most
    DIGITS = 32                     # of the owner's label
    RDATA_MAX = 65000               # of a record that fits into a message

globals().update(TYPE_OBJECT=TYPE_OBJECT, FORMAT=FORMAT, EXTRA_LABELS=<int>EXTRA_LABELS, EXTRA_PLACES=<int>EXTRA_PLACES,
                 PART_HEAD=PART_HEAD, PART_ENDPOINT=PART_ENDPOINT)


# ---- from objects to records ----

cdef struct Encoder:                # the sink that objects are replayed into
    const Content *content
    RowSet *rows
    Output out


cdef uint32_t owner_write(uint8_t *out, const Content *content, Kind kind, const Object *object) noexcept nogil:
    """Returns its length; 0 when it is too long, or could not be made."""
    cdef uint8_t named[NAMED]
    cdef uint8_t digest[32]
    cdef uint32_t used = 1, i
    if DIGITS + 1 + content.zone_length > NAME_MAX or 2u + object.namespace.length + object.name.length > NAMED:
        return 0
    named[0] = <uint8_t>kind
    if object.namespace.length:     # none has no octets either
        memcpy(named + used, object.namespace.data, object.namespace.length)
    used += object.namespace.length
    named[used] = c'/'
    memcpy(named + used + 1, object.name.data, object.name.length)
    used += 1 + object.name.length
    if digest_of(HASH_SHA256, named, used, digest) < 0:
        return 0
    out[0] = DIGITS
    for i in range(DIGITS):
        out[1 + i] = <uint8_t>b"0123456789abcdef"[digest[i // 2] >> (0 if i & 1 else 4) & 15]
    memcpy(out + 1 + DIGITS, content.zone, content.zone_length)
    return DIGITS + 1 + content.zone_length


cdef void put(Encoder *encoder, const uint8_t *owner, uint32_t owner_length) noexcept nogil:
    """What is in `out`."""
    cdef TransferRecord record
    if encoder.out.failed or encoder.out.length > RDATA_MAX:
        encoder.rows.failed = 1
        return
    record.type = TYPE_OBJECT
    record.ttl = encoder.content.view.ttl
    record.owner = owner
    record.owner_length = <uint8_t>owner_length
    record.rdata = encoder.out.data
    record.rdlength = <uint16_t>encoder.out.length
    rowset_put(encoder.rows, &record)


cdef void begin_part(Encoder *encoder, Kind kind, Part part) noexcept nogil:
    cdef uint8_t head[2]
    head[0] = <uint8_t>kind
    head[1] = <uint8_t>part
    encoder.out.length = 0
    output_add(&encoder.out, head, 2)


cdef int put_object(void *self, Kind kind, const Object *object) noexcept nogil:
    cdef Encoder *encoder = <Encoder *>self
    cdef uint8_t owner[NAME_MAX]
    cdef uint32_t length = owner_write(owner, encoder.content, kind, object), i
    cdef Slice slice
    if length == 0:
        encoder.rows.failed = 1
        return -1
    begin_part(encoder, kind, PART_HEAD)
    if kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        slice = (<const Slice *>object)[0]
        slice.object.version = 0
        slice.endpoint_count = 0        # the array stays
        encode_object(&encoder.out, kind, &slice.object)
        put(encoder, owner, length)
        for i in range((<const Slice *>object).endpoint_count):
            begin_part(encoder, kind, PART_ENDPOINT)
            encode_endpoint(&encoder.out, &slice.endpoints[i])
            put(encoder, owner, length)
    else:
        (<Object *>object).version = 0  # it was made for this call
        encode_object(&encoder.out, kind, object)
        put(encoder, owner, length)
    return -1 if encoder.rows.failed else 0


cdef void encoder_begin(Encoder *encoder, ObjectSink *calls, const Content *content, RowSet *rows) noexcept nogil:
    memset(encoder, 0, sizeof(Encoder))
    memset(calls, 0, sizeof(ObjectSink))
    encoder.content = content
    encoder.rows = rows
    calls.upsert = put_object


cdef void objects_service(const Content *content, const ServiceNode *node, RowSet *rows) noexcept nogil:
    cdef Encoder encoder
    cdef ObjectSink calls
    cdef const SliceRecord *slice = node.slices
    # Also in a namespace that is not there: the service has a PTR record.
    if not view_names(content.view, node.namespace):
        return
    encoder_begin(&encoder, &calls, content, rows)
    if node.record != NULL and replay_service(node, &calls, &encoder) < 0:
        rows.failed = 1
    while slice != NULL and not content.view.no_endpoints:
        if replay_slice(slice, KIND_SLICE if node.world == LOCAL else KIND_IMPORT_SLICE, &calls, &encoder) < 0:
            rows.failed = 1
        slice = slice.next
    output_free(&encoder.out)


cdef bint has_pods(const Content *content) noexcept nogil:
    return content.view.kinds >> <int>KIND_POD & 1


cdef void objects_pod(const Content *content, const PodRecord *pod, RowSet *rows) noexcept nogil:
    cdef Encoder encoder
    cdef ObjectSink calls
    encoder_begin(&encoder, &calls, content, rows)
    if replay_pod(pod, &calls, &encoder) < 0:
        rows.failed = 1
    output_free(&encoder.out)


cdef void objects_namespaces(const Content *content, RowSet *rows) noexcept nogil:
    cdef Encoder encoder
    cdef ObjectSink calls
    cdef const NamespaceNode *node
    cdef uint32_t place = 0
    cdef uint8_t apex[3]
    encoder_begin(&encoder, &calls, content, rows)
    apex[0] = FORMAT
    apex[1] = <uint8_t>content.view.kinds
    apex[2] = content.view.extras
    output_add(&encoder.out, apex, 3)
    put(&encoder, content.zone, content.zone_length)
    node = <const NamespaceNode *>table_next(&content.view.cluster.namespaces, &place)
    while node != NULL:
        if view_exposes(content.view, node) and replay_namespace(node, &calls, &encoder) < 0:
            rows.failed = 1
        node = <const NamespaceNode *>table_next(&content.view.cluster.namespaces, &place)
    output_free(&encoder.out)


cdef bint objects_give(const Content *content, Rows *into) noexcept nogil:
    cdef RowSet rows
    cdef const ServiceNode *node
    cdef const PodRecord *pod
    cdef uint32_t place
    cdef int world
    cdef bint failed = False
    memset(&rows, 0, sizeof(RowSet))
    for world in range(<int>WORLDS):
        place = 0
        node = <const ServiceNode *>table_next(&content.view.cluster.services[world], &place)
        while node != NULL:
            rowset_clear(&rows)
            objects_service(content, node, &rows)
            rowset_sort(&rows, True)
            failed |= rows.failed
            rowset_give(&rows, into)
            node = <const ServiceNode *>table_next(&content.view.cluster.services[world], &place)
    place = 0
    pod = <const PodRecord *>table_next(&content.view.cluster.pods, &place) if has_pods(content) else NULL
    while pod != NULL:
        rowset_clear(&rows)
        objects_pod(content, pod, &rows)
        failed |= rows.failed
        rowset_give(&rows, into)
        pod = <const PodRecord *>table_next(&content.view.cluster.pods, &place)
    rowset_clear(&rows)
    objects_namespaces(content, &rows)
    failed |= rows.failed
    rowset_give(&rows, into)
    rowset_free(&rows)
    return not failed


# ---- from records to objects ----

cdef int check(int kind) except -1:
    if not 0 <= kind < KIND_COUNT:
        raise ValueError(f"no such kind: {kind}")
    return 0


cdef enum Deed:
    VALIDATE
    UPSERT
    REMOVE


cdef int hand_over(Sink sink, Kind kind, bytes message, Deed deed, bint pod_labels) except -1:
    """The sink may be None where the object is only decoded."""
    cdef Scratch scratch
    cdef const Object *object = NULL
    cdef Span body, version
    cdef int status
    body.data = message
    body.length = <uint32_t>len(message)
    scratch_init(&scratch)
    with nogil:
        status = skim_object(kind, body, pod_labels, &scratch, &object, &version)
        if status == DECODED and deed == REMOVE:
            sink.calls.remove(sink.self_, kind, object)
        elif status == DECODED and deed == UPSERT and sink.calls.upsert(sink.self_, kind, object) < 0:
            status = NO_MEMORY
        scratch_free(&scratch)
    if status == NO_MEMORY:
        raise MemoryError
    if status != DECODED:
        raise ValueError("malformed object")
    return 0


def begin(Sink sink not None, int kind):
    check(kind)
    with nogil:
        sink.calls.begin(sink.self_, <Kind>kind, SOURCE_ZONE)


def validate(int kind, bytes message not None):
    check(kind)
    hand_over(None, <Kind>kind, message, VALIDATE, False)


def upsert(Sink sink not None, int kind, bytes message not None, bint pod_labels=False):
    check(kind)
    hand_over(sink, <Kind>kind, message, UPSERT, pod_labels)


def remove(Sink sink not None, int kind, bytes message not None):
    check(kind)
    hand_over(sink, <Kind>kind, message, REMOVE, False)


def commit(Sink sink not None, int kind):
    cdef int status
    check(kind)
    with nogil:
        status = sink.calls.commit(sink.self_, <Kind>kind)
    if status < 0:
        raise MemoryError


def drop(Sink sink not None, int kind):
    check(kind)
    with nogil:
        sink.calls.drop(sink.self_, <Kind>kind)


def flush(Sink sink not None):
    with nogil:
        sink.calls.flush(sink.self_)
