"""What changes of a zone of a cluster; see changes.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from fastdns.api.memory cimport atomic_store32
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.wire cimport TYPE_SOA, TYPE_ZONEMD
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.answer.view cimport ZONE_OBJECTS
from fastdns.plugins.kubernetes.answer.records cimport SOA_OCTETS_MAX, soa_ttl, soa_write
from fastdns.plugins.kubernetes.store.find cimport find_service
from fastdns.plugins.kubernetes.store.memory cimport load_count, table_next
from fastdns.plugins.kubernetes.store.records cimport WORLDS, Cluster, NamespaceNode, Observer, PodRecord, ServiceNode
from fastdns.plugins.kubernetes.store.store cimport cluster_lock, cluster_observe, cluster_unlock, cluster_unobserve
from fastdns.plugins.kubernetes.zone.content cimport content_give, content_servers, content_service, content_world
from fastdns.plugins.kubernetes.zone.objects cimport has_pods, objects_give, objects_namespaces, objects_pod, objects_service
from fastdns.plugins.kubernetes.zone.rows cimport (RowSet, rowset_at, rowset_clear, rowset_compare, rowset_free, rowset_give,
                                                   rowset_sort)
from fastdns.plugins.kubernetes.zone.trimmed cimport trimmed_clear, trimmed_dict, trimmed_free, trimmed_set
from fastdns.plugins.transfer._digest cimport ZONEMD_OCTETS, ContentDigest, digest_add, digest_merge, digest_remove, zonemd_write
from fastdns.plugins.transfer._rows cimport Rows, rows_failed, rows_new, rows_put, rows_source
from fastdns.plugins.transfer._serial cimport serial_after
from fastdns.plugins.transfer._source cimport TransferRecord
from fastdns.plugins.transfer._transfer cimport transfer_of

cdef enum:
    TOUCHED_FIRST = 16
    PARTS = 16                      # of a second, which serials count
    RECORDS_MOST = 50000            # of a version's differences: no journal keeps more (transfer/journal.py)
    OCTETS_MOST = 0x2000000         # ... and of their rows; and of the rows of services and pods before they changed


# ---- what the zone has of the cluster ----

cdef inline bint is_of_objects(const Tracker *tracker) noexcept nogil:
    return tracker.content.zone_flags & ZONE_OBJECTS != 0


cdef inline bint has_world(const Tracker *tracker, int world) noexcept nogil:
    return is_of_objects(tracker) or world == content_world(&tracker.content)


cdef void read_service(const Tracker *tracker, const ServiceNode *node, RowSet *rows) noexcept nogil:
    if is_of_objects(tracker):
        objects_service(&tracker.content, node, rows)
    else:
        content_service(&tracker.content, node, rows)
    rowset_sort(rows, True)


cdef void read_servers(const Tracker *tracker, RowSet *servers) noexcept nogil:
    content_servers(&tracker.content, is_of_objects(tracker), servers)
    rowset_sort(servers, True)


cdef void read_namespaces(const Tracker *tracker, RowSet *namespaces) noexcept nogil:
    if is_of_objects(tracker):
        objects_namespaces(&tracker.content, namespaces)
        rowset_sort(namespaces, True)


# ---- what the store's writer tells; under the cluster's lock ----

cdef void note(Observer *observer, const ServiceNode *node) noexcept nogil:
    """The service is about to change."""
    cdef Tracker *tracker = <Tracker *>observer
    cdef Touched *one
    if not has_world(tracker, node.world) or tracker.failed or (
            tracker.slots != NULL and tracker.slots[find_slot(tracker, node.world, node.key, node.length)]):
        return
    if not grow(tracker):
        tracker.failed = 1
        return
    one = &tracker.touched[tracker.count]
    memset(one, 0, sizeof(Touched))
    one.world = node.world
    one.length = node.length
    memcpy(one.key, node.key, node.length)
    read_service(tracker, node, &one.before)
    tracker.failed = one.before.failed
    if tracker.octets + one.before.used > OCTETS_MOST:
        one.hashed = 1
        hash_pending(tracker, &one.before, True)
    tracker.octets += one.before.used
    tracker.count += 1
    tracker.slots[find_slot(tracker, node.world, node.key, node.length)] = tracker.count


cdef void note_namespace(Observer *observer, const NamespaceNode *namespace) noexcept nogil:
    (<Tracker *>observer).spaces_changed = 1


cdef void note_pod(Observer *observer, const PodRecord *pod, bint gone) noexcept nogil:
    cdef Tracker *tracker = <Tracker *>observer
    cdef RowSet *rows = &tracker.pods_deleted if gone else &tracker.pods_added
    if is_of_objects(tracker) and has_pods(&tracker.content) and not tracker.failed:
        objects_pod(&tracker.content, pod, rows)
        tracker.failed = rows.failed
        if rows.used > OCTETS_MOST:
            hash_pending(tracker, rows, gone)


cdef void hash_pending(Tracker *tracker, RowSet *rows, bint remove) noexcept nogil:
    """Counts rows in the digest of the next version, and frees them: nobody learns which ones have changed."""
    hash_rows(&tracker.pending, rows, remove)
    tracker.pending_records += -rows.count if remove else rows.count
    tracker.flooded = 1
    rowset_free(rows)


cdef void hash_rows(ContentDigest *digest, const RowSet *rows, bint remove) noexcept nogil:
    cdef TransferRecord record
    cdef uint32_t i
    for i in range(rows.count):
        rowset_at(rows, i, &record)
        if remove:
            digest_remove(digest, &record)
        else:
            digest_add(digest, &record)


cdef uint32_t find_slot(const Tracker *tracker, uint8_t world, const uint8_t *key, uint32_t length) noexcept nogil:
    """The service's slot, or the free one where it belongs."""
    cdef uint32_t place = <uint32_t>hash_octets(key, length, hash_seed) & tracker.mask
    cdef const Touched *one
    while tracker.slots[place]:
        one = &tracker.touched[tracker.slots[place] - 1]
        if one.world == world and one.length == length and memcmp(one.key, key, length) == 0:
            return place
        place = (place + 1) & tracker.mask
    return place


cdef bint grow(Tracker *tracker) noexcept nogil:
    """Room for one more service."""
    cdef uint32_t room = max(<uint32_t>TOUCHED_FIRST, 2 * tracker.room), i
    cdef Touched *touched
    cdef uint32_t *slots
    if tracker.count < tracker.room:
        return True
    touched = <Touched *>realloc(tracker.touched, room * sizeof(Touched))
    if touched == NULL:
        return False
    tracker.touched = touched
    slots = <uint32_t *>calloc(2 * room, sizeof(uint32_t))
    if slots == NULL:
        return False
    free(tracker.slots)
    tracker.slots = slots
    tracker.mask = 2 * room - 1
    tracker.room = room
    for i in range(tracker.count):
        slots[find_slot(tracker, touched[i].world, touched[i].key, touched[i].length)] = i + 1
    return True


cdef void forget(Tracker *tracker) noexcept nogil:
    """What has changed so far."""
    cdef uint32_t i
    for i in range(tracker.count):
        rowset_free(&tracker.touched[i].before)
    free(tracker.touched)
    free(tracker.slots)
    tracker.touched = NULL
    tracker.slots = NULL
    tracker.count = 0
    tracker.room = 0
    tracker.mask = 0
    tracker.spaces_changed = 0
    rowset_free(&tracker.pods_deleted)
    rowset_free(&tracker.pods_added)
    memset(&tracker.pending, 0, sizeof(ContentDigest))
    tracker.pending_records = 0
    tracker.octets = 0
    tracker.flooded = 0
    tracker.failed = 0


# ---- versions; under the cluster's lock ----

cdef uint32_t next_serial(const Tracker *tracker) noexcept nogil:
    """After the last one (RFC 1982): the time in sixteenths of a second, so that serials go on over a restart, or the next number."""
    cdef timespec now
    cdef uint32_t serial
    clock_gettime(CLOCK_REALTIME, &now)
    serial = <uint32_t>(<uint64_t>now.tv_sec * PARTS + <uint64_t>now.tv_nsec * PARTS // 1000000000)
    if tracker.serial and not serial_after(serial, tracker.serial):
        serial = tracker.serial + 1
    return serial if serial else 1      # 0 is no serial of a version


cdef void digest_rows(Tracker *tracker, const RowSet *rows, bint remove) noexcept nogil:
    hash_rows(&tracker.digest, rows, remove)
    tracker.records += -rows.count if remove else rows.count


cdef bint begin(Tracker *tracker) noexcept nogil:
    """The first version, or one of which is not known how it came about. False: memory ran out."""
    cdef const ServiceNode *node
    cdef const PodRecord *pod
    cdef RowSet rows
    cdef uint32_t place
    cdef int world
    memset(&rows, 0, sizeof(RowSet))
    forget(tracker)
    memset(&tracker.digest, 0, sizeof(ContentDigest))
    tracker.records = 0
    trimmed_clear(&tracker.trimmed)
    for world in range(<int>WORLDS):
        if not has_world(tracker, world):
            continue
        place = 0
        node = <const ServiceNode *>table_next(&tracker.cluster.services[world], &place)
        while node != NULL:
            rowset_clear(&rows)
            read_service(tracker, node, &rows)
            digest_rows(tracker, &rows, False)
            tracker.failed |= rows.failed
            trimmed_set(&tracker.trimmed, node.world, node.key, node.length, rows.left_out)
            node = <const ServiceNode *>table_next(&tracker.cluster.services[world], &place)
    place = 0
    pod = <const PodRecord *>table_next(&tracker.cluster.pods, &place) if is_of_objects(tracker) and has_pods(&tracker.content) else NULL
    while pod != NULL:
        rowset_clear(&rows)
        objects_pod(&tracker.content, pod, &rows)
        digest_rows(tracker, &rows, False)
        tracker.failed |= rows.failed
        pod = <const PodRecord *>table_next(&tracker.cluster.pods, &place)
    rowset_free(&rows)
    rowset_clear(&tracker.servers)
    read_servers(tracker, &tracker.servers)
    digest_rows(tracker, &tracker.servers, False)
    rowset_clear(&tracker.namespaces)
    read_namespaces(tracker, &tracker.namespaces)
    digest_rows(tracker, &tracker.namespaces, False)
    tracker.failed |= tracker.servers.failed | tracker.namespaces.failed | tracker.digest.failed
    tracker.serial = next_serial(tracker)
    atomic_store32(tracker.serials, tracker.serial)
    return not tracker.failed


cdef void bound(Tracker *tracker, RowSet *deleted, RowSet *added) noexcept nogil:
    """Frees differences that are more than a journal keeps, once the digest has them."""
    if deleted.count + added.count <= RECORDS_MOST and deleted.used + <uint64_t>added.used <= OCTETS_MOST:
        return
    hash_pending(tracker, deleted, True)
    hash_pending(tracker, added, False)


cdef void compare_service(Tracker *tracker, Touched *one, RowSet *after, RowSet *deleted, RowSet *added) noexcept nogil:
    cdef const ServiceNode *node = find_service(tracker.cluster, one.world, one.key, one.length)
    rowset_clear(after)
    if node != NULL:
        read_service(tracker, node, after)
    tracker.failed |= after.failed
    trimmed_set(&tracker.trimmed, one.world, one.key, one.length, after.left_out)
    if one.hashed:
        hash_pending(tracker, after, False)
        return
    rowset_compare(&one.before, after, deleted, added)
    rowset_free(&one.before)
    tracker.failed |= deleted.failed | added.failed
    bound(tracker, deleted, added)


cdef bint advance(Tracker *tracker, RowSet *deleted, RowSet *added, bint *known) noexcept nogil:
    """Makes the next version, if anything has changed. False: memory ran out, or had before; then `begin`.

    `known` is False where more has changed than `deleted` and `added` say.
    """
    cdef RowSet after, spaces
    cdef uint32_t i
    cdef bint spaces_changed = tracker.spaces_changed
    known[0] = True
    if tracker.failed:
        return False
    if tracker.count == 0 and tracker.pods_deleted.count == 0 and tracker.pods_added.count == 0 and not tracker.flooded and (
            not (spaces_changed and is_of_objects(tracker))):
        return True
    memset(&after, 0, sizeof(RowSet))
    memset(&spaces, 0, sizeof(RowSet))
    for i in range(tracker.count):
        compare_service(tracker, &tracker.touched[i], &after, deleted, added)
    rowset_clear(&after)
    read_servers(tracker, &after)
    rowset_compare(&tracker.servers, &after, deleted, added)
    if spaces_changed:
        read_namespaces(tracker, &spaces)
        rowset_compare(&tracker.namespaces, &spaces, deleted, added)
    rowset_sort(&tracker.pods_deleted, False)
    rowset_sort(&tracker.pods_added, False)
    rowset_compare(&tracker.pods_deleted, &tracker.pods_added, deleted, added)
    tracker.failed |= tracker.pods_deleted.failed | tracker.pods_added.failed | after.failed | spaces.failed | deleted.failed | added.failed
    if tracker.failed:
        rowset_free(&after)
        rowset_free(&spaces)
        return False
    bound(tracker, deleted, added)
    rowset_free(&tracker.servers)
    tracker.servers = after
    if spaces_changed:
        rowset_free(&tracker.namespaces)
        tracker.namespaces = spaces
    known[0] = not tracker.flooded
    if deleted.count or added.count or tracker.flooded:
        digest_rows(tracker, deleted, True)
        digest_rows(tracker, added, False)
        digest_merge(&tracker.digest, &tracker.pending)
        tracker.records += tracker.pending_records
        tracker.serial = next_serial(tracker)
        atomic_store32(tracker.serials, tracker.serial)
    forget(tracker)
    tracker.failed = tracker.digest.failed
    return not tracker.failed


cdef void put_soa(const Tracker *tracker, Rows *into) noexcept nogil:
    cdef uint8_t rdata[SOA_OCTETS_MAX]
    cdef uint32_t length = soa_write(rdata, tracker.content.view, tracker.serial, tracker.content.zone, tracker.content.zone_length)
    rows_put(into, TYPE_SOA, soa_ttl(tracker.content.view), tracker.content.zone, tracker.content.zone_length, rdata, length)


cdef bint give(const Tracker *tracker, Rows *into) noexcept nogil:
    """All records. False: memory ran out."""
    cdef uint8_t zonemd[ZONEMD_OCTETS]
    cdef bint given
    zonemd_write(zonemd, tracker.serial, &tracker.digest)
    put_soa(tracker, into)
    rows_put(into, TYPE_ZONEMD, soa_ttl(tracker.content.view), tracker.content.zone, tracker.content.zone_length, zonemd, ZONEMD_OCTETS)
    rowset_give(&tracker.servers, into)
    given = objects_give(&tracker.content, into) if is_of_objects(tracker) else content_give(&tracker.content, True, into, NULL)
    put_soa(tracker, into)
    return given


# ---- Python ----

cdef list rows_of(const RowSet *rows):
    cdef TransferRecord record
    cdef uint32_t i
    found = []
    for i in range(rows.count):
        rowset_at(rows, i, &record)
        found.append(((<const char *>record.owner)[:record.owner_length], record.type, record.ttl, (<const char *>record.rdata)[:record.rdlength]))
    return found


cdef class Changes:

    def __cinit__(self, ViewHandler handler not None, bytes zone not None):
        cdef const uint8_t *wire = zone
        cdef uint32_t number = 0
        while number < handler.view.zones.count and (<const char *>handler.view.zones.names[number].wire)[:handler.view.zones.names[number].length] != zone:
            number += 1
        if number == handler.view.zones.count:
            raise KeyError(zone)
        self.handler = handler
        self.zone = zone
        self.tracker.observer.changes = note
        self.tracker.observer.namespace_changed = note_namespace
        self.tracker.observer.pod_changed = note_pod
        self.tracker.cluster = &handler.store.cluster
        self.tracker.serials = &handler.view.serials[number]
        self.tracker.content.view = &handler.view
        self.tracker.content.zone = wire
        self.tracker.content.zone_length = <uint32_t>len(zone)
        self.tracker.content.zone_flags = handler.view.zone_flags[number]

    def __dealloc__(self):
        self._end()

    def close(self):
        self._end()
        self.handler = None

    cdef void _end(self) noexcept:
        cdef Tracker *tracker = &self.tracker
        if not self.observing:
            return
        self.observing = False
        with nogil:
            cluster_lock(tracker.cluster)
            cluster_unobserve(tracker.cluster, &tracker.observer)
            cluster_unlock(tracker.cluster)
            forget(tracker)
            rowset_free(&tracker.servers)
            rowset_free(&tracker.namespaces)
            trimmed_free(&tracker.trimmed)

    def known(self):
        cdef uint32_t kinds = self.tracker.content.view.kinds
        cdef Cluster *cluster = self.tracker.cluster
        return load_count(&cluster.synced) & kinds == kinds and load_count(&cluster.stale) & kinds == 0

    def advance(self, bint whole=False):
        cdef Tracker *tracker = &self.tracker
        cdef RowSet deleted, added
        cdef Rows *rows = NULL
        cdef bint first = not self.observing, known = True, followed, complete, given = True
        if whole:
            rows = rows_new()
            if rows == NULL:
                raise MemoryError
        memset(&deleted, 0, sizeof(RowSet))
        memset(&added, 0, sizeof(RowSet))
        self.observing = True
        with nogil:
            cluster_lock(tracker.cluster)
            if first:
                cluster_observe(tracker.cluster, &tracker.observer)
            followed = not first and advance(tracker, &deleted, &added, &known)
            complete = followed or begin(tracker)
            if complete and rows != NULL:
                given = give(tracker, rows)
            cluster_unlock(tracker.cluster)
        transfer = transfer_of(rows_source(rows)) if rows != NULL else None
        try:
            if not complete or not given or (rows != NULL and rows_failed(rows)):
                raise MemoryError
            self.too_large = not known
            return ((rows_of(&deleted), rows_of(&added)) if followed and known else None), transfer
        except MemoryError:
            # Nobody has heard of this version: the next one does not follow from the last that is known.
            with nogil:
                cluster_lock(tracker.cluster)
                tracker.failed = 1
                cluster_unlock(tracker.cluster)
            raise
        finally:
            rowset_free(&deleted)
            rowset_free(&added)

    @property
    def serial(self):
        return self.tracker.serial

    @serial.setter
    def serial(self, uint32_t value):
        cdef Tracker *tracker = &self.tracker
        with nogil:
            cluster_lock(tracker.cluster)
            tracker.serial = value
            atomic_store32(tracker.serials, value)
            cluster_unlock(tracker.cluster)

    def left_out(self):
        cdef Tracker *tracker = &self.tracker
        if not tracker.trimmed.changed:
            return None
        tracker.trimmed.changed = 0
        return trimmed_dict(&tracker.trimmed)

    @property
    def records(self):
        return self.tracker.records

    @property
    def soa(self):
        cdef uint8_t rdata[SOA_OCTETS_MAX]
        cdef Tracker *tracker = &self.tracker
        cdef uint32_t length = soa_write(rdata, tracker.content.view, tracker.serial, tracker.content.zone, tracker.content.zone_length)
        return self.zone, TYPE_SOA, soa_ttl(tracker.content.view), (<const char *>rdata)[:length]

    @property
    def zonemd(self):
        cdef uint8_t rdata[ZONEMD_OCTETS]
        zonemd_write(rdata, self.tracker.serial, &self.tracker.digest)
        return self.zone, TYPE_ZONEMD, soa_ttl(self.tracker.content.view), (<const char *>rdata)[:ZONEMD_OCTETS]
