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
from fastdns.plugins.kubernetes.zone.pieces cimport CUT_END, CUT_PIECE, Cut, Pieces, pieces_begin, pieces_next
from fastdns.plugins.kubernetes.zone.rows cimport rowset_clear, rowset_free, rowset_give, rowset_put, rowset_sort
from fastdns.plugins.transfer._source cimport TransferRecord

cdef enum:
    NAMED = 512                     # octets of kind, namespace and name at most
    DIGITS = 32                     # of the owner's label
    RDATA_MAX = 60000               # octets of a record that any message of a transfer holds
    ENDPOINTS_APART = 4096          # endpoints of a slice that have a record each; an RRset holds 65535 records

globals().update(TYPE_OBJECT=TYPE_OBJECT, FORMAT=FORMAT, EXTRA_LABELS=<int>EXTRA_LABELS, EXTRA_PLACES=<int>EXTRA_PLACES,
                 PART_HEAD=PART_HEAD, PART_ENDPOINT=PART_ENDPOINT, PART_PIECE=PART_PIECE)


# ---- from objects to records ----

cdef struct Encoder:                # the sink that objects are replayed into
    const Content *content
    RowSet *rows
    Output out                      # the record at work
    Output whole                    # the message of an object
    uint8_t owner[NAME_MAX]
    uint32_t owner_length
    uint8_t too_large               # the object at work does not fit


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


cdef void put(Encoder *encoder) noexcept nogil:
    """Adds the record in `out`, or notes that the object is too large."""
    cdef TransferRecord record
    if encoder.out.failed:
        encoder.rows.failed = 1
        return
    if encoder.out.length > RDATA_MAX:
        encoder.too_large = 1
        return
    record.type = TYPE_OBJECT
    record.ttl = encoder.content.view.ttl
    record.owner = encoder.owner
    record.owner_length = <uint8_t>encoder.owner_length
    record.rdata = encoder.out.data
    record.rdlength = <uint16_t>encoder.out.length
    rowset_put(encoder.rows, &record)


cdef void begin_part(Encoder *encoder, Kind kind, Part part) noexcept nogil:
    cdef uint8_t head[2]
    head[0] = <uint8_t>kind
    head[1] = <uint8_t>part
    encoder.out.length = 0
    output_add(&encoder.out, head, 2)


cdef void put_message(Encoder *encoder, Kind kind, const Object *object) noexcept nogil:
    """Adds the head, and further pieces if one record does not hold the message."""
    cdef Pieces pieces
    cdef Span message
    cdef Cut status = CUT_PIECE
    encoder.whole.length = 0
    if encode_object(&encoder.whole, kind, object) < 0:
        encoder.rows.failed = 1
        return
    if encoder.whole.length + 2 <= RDATA_MAX:
        begin_part(encoder, kind, PART_HEAD)
        output_add(&encoder.out, encoder.whole.data, encoder.whole.length)
        put(encoder)
        return
    message.data = <const char *>encoder.whole.data
    message.length = <uint32_t>encoder.whole.length
    pieces_begin(&pieces, kind, message)
    while status == CUT_PIECE and not encoder.rows.failed:
        begin_part(encoder, kind, PART_PIECE if pieces.count else PART_HEAD)
        status = pieces_next(&pieces, &encoder.out)
        if status == CUT_PIECE:
            put(encoder)
    if status != CUT_END:
        encoder.too_large = 1


cdef void put_slice(Encoder *encoder, Kind kind, const Slice *object) noexcept nogil:
    cdef Slice slice = object[0]
    cdef uint32_t i
    slice.object.version = 0
    if slice.endpoint_count <= ENDPOINTS_APART:
        slice.endpoint_count = 0        # the array stays
    put_message(encoder, kind, &slice.object)
    for i in range(0 if slice.endpoint_count else object.endpoint_count):
        begin_part(encoder, kind, PART_ENDPOINT)
        encode_endpoint(&encoder.out, &slice.endpoints[i])
        put(encoder)


cdef int put_object(void *self, Kind kind, const Object *object) noexcept nogil:
    cdef Encoder *encoder = <Encoder *>self
    cdef uint32_t used = encoder.rows.used, count = encoder.rows.count
    encoder.owner_length = owner_write(encoder.owner, encoder.content, kind, object)
    if encoder.owner_length == 0:
        encoder.rows.failed = 1
        return -1
    encoder.too_large = 0
    if kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        put_slice(encoder, kind, <const Slice *>object)
    else:
        (<Object *>object).version = 0  # it was made for this call
        put_message(encoder, kind, object)
    if encoder.too_large and not encoder.rows.failed:
        encoder.rows.left_out += 1
        encoder.rows.used = used
        encoder.rows.count = count
    return -1 if encoder.rows.failed else 0


cdef void encoder_begin(Encoder *encoder, ObjectSink *calls, const Content *content, RowSet *rows) noexcept nogil:
    memset(encoder, 0, sizeof(Encoder))
    memset(calls, 0, sizeof(ObjectSink))
    encoder.content = content
    encoder.rows = rows
    calls.upsert = put_object


cdef void encoder_end(Encoder *encoder) noexcept nogil:
    output_free(&encoder.out)
    output_free(&encoder.whole)


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
    encoder_end(&encoder)


cdef bint has_pods(const Content *content) noexcept nogil:
    return content.view.kinds >> <int>KIND_POD & 1


cdef void objects_pod(const Content *content, const PodRecord *pod, RowSet *rows) noexcept nogil:
    cdef Encoder encoder
    cdef ObjectSink calls
    encoder_begin(&encoder, &calls, content, rows)
    if replay_pod(pod, &calls, &encoder) < 0:
        rows.failed = 1
    encoder_end(&encoder)


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
    memcpy(encoder.owner, content.zone, content.zone_length)
    encoder.owner_length = content.zone_length
    put(&encoder)
    node = <const NamespaceNode *>table_next(&content.view.cluster.namespaces, &place)
    while node != NULL:
        if view_exposes(content.view, node) and replay_namespace(node, &calls, &encoder) < 0:
            rows.failed = 1
        node = <const NamespaceNode *>table_next(&content.view.cluster.namespaces, &place)
    encoder_end(&encoder)


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
