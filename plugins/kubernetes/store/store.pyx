"""The store of one cluster's objects; see _store.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from libc.time cimport time
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec
from fastdns.api.metrics cimport METRIC_CONTROL, Buckets, Metric, metric_observe
from fastdns.api.memory cimport atomic_poke8, atomic_poke_ns, epoch_wait
from fastdns.plugins.kubernetes.store.addresses cimport addresses_fill
from fastdns.plugins.kubernetes.store.memory cimport Table, load_count, memory_end, memory_free, memory_reclaim, store_count
from fastdns.plugins.kubernetes.store.namespaces cimport (ADDED, CHANGED, MOVES_EXTERNAL, MOVES_INTERNAL, NO_MEMORY, REMOVED, UNCHANGED, EventResult,
                                                          import_upsert, namespace_remove, namespace_sweep, namespace_upsert, nodes_begin, nodes_end,
                                                          service_remove, service_node, service_sweep, service_upsert)
from fastdns.plugins.kubernetes.decode.objects cimport (KIND_IMPORT, KIND_IMPORT_SLICE, KIND_NAMESPACE, KIND_POD, KIND_SERVICE, KIND_SLICE,
                                                        SOURCE_SNAPSHOT, SOURCE_ZONE, Import, Namespace, Object, Pod, Service, Slice, Source)
from fastdns.plugins.kubernetes.store.records cimport IMPORTED, LOCAL, SERVICE_HEADLESS, ServiceNode
from fastdns.plugins.kubernetes.store.replay cimport replay_kind
from fastdns.plugins.kubernetes.store.slices cimport pod_remove, pod_sweep, pod_upsert, slice_remove, slice_sweep, slice_upsert, slices_begin, slices_end

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)

KINDS = ("namespaces", "services", "endpointslices", "pods", "serviceimports", "importslices")

latency = Metric(
    "coredns_kubernetes_dns_programming_duration_seconds",
    "Histogram of the time (in seconds) it took to program a dns instance.",
    "histogram",
    ("service_kind",),
    [0.001 * 2**k for k in range(20)],
    1e9,
)
# What the writer needs without the GIL: buckets and first cells, which stay as they are for the life of the process.
cdef Buckets latency_buckets = (<Metric>latency).buckets
cdef uint32_t cluster_ip_cell = latency.cell(("cluster_ip",))
cdef pthread_mutex_t latency_lock
pthread_mutex_init(&latency_lock, NULL)
cdef uint32_t headless_cell = latency.cell(("headless_with_selector",))

cdef enum:
    BATCH = 256                     # events after which replaced memory is looked at again, also where no pause comes


cdef void now(uint32_t *serial) noexcept nogil:
    store_count(serial, <uint32_t>time(NULL))


# ---- one at a time: the writer, and whoever copies records of one moment ----

cdef void cluster_lock(Cluster *cluster) noexcept nogil:
    pthread_mutex_lock(<pthread_mutex_t *>cluster.lock)


cdef void cluster_unlock(Cluster *cluster) noexcept nogil:
    pthread_mutex_unlock(<pthread_mutex_t *>cluster.lock)


cdef void cluster_observe(Cluster *cluster, Observer *observer) noexcept nogil:
    observer.next = cluster.observers
    cluster.observers = observer


cdef void cluster_unobserve(Cluster *cluster, Observer *observer) noexcept nogil:
    cdef Observer **link = &cluster.observers
    while link[0] != observer:
        link = &link[0].next
    link[0] = observer.next


# ---- what the sink's calls do; self is the cluster ----

cdef void sink_begin(void *self, Kind kind, Source source) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cluster_lock(cluster)
    cluster.generation[<int>kind] += 1
    cluster.listing[<int>kind] = 1
    cluster.source[<int>kind] = source
    if (source == SOURCE_SNAPSHOT or source == SOURCE_ZONE) and cluster.count[<int>kind] == 0 and not cluster.synced >> <int>kind & 1:
        cluster.at_once[<int>kind] = 1
    cluster_unlock(cluster)


cdef int sink_upsert(void *self, Kind kind, const Object *object) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cdef int moves = 0
    cdef EventResult outcome
    cluster_lock(cluster)
    if kind == KIND_SERVICE:
        outcome = service_upsert(cluster, <const Service *>object, &moves)
    elif kind == KIND_SLICE:
        outcome = slice_upsert(cluster, LOCAL, <const Slice *>object)
        if (outcome == ADDED or outcome == CHANGED) and not cluster.listing[<int>kind]:
            observe(cluster, <const Slice *>object)
    elif kind == KIND_POD:
        outcome = pod_upsert(cluster, <const Pod *>object)
    elif kind == KIND_NAMESPACE:
        outcome = namespace_upsert(cluster, <const Namespace *>object)
    elif kind == KIND_IMPORT:
        outcome = import_upsert(cluster, <const Import *>object)
    else:
        outcome = slice_upsert(cluster, IMPORTED, <const Slice *>object)
    count_event(cluster, kind, outcome, moves)
    cluster_unlock(cluster)
    return -1 if outcome == NO_MEMORY else 0


cdef void observe(Cluster *cluster, const Slice *slice) noexcept nogil:
    """How long it took from the change that a slice tells of to its being answered. Slices of a list would only tell the age of the cluster."""
    cdef ServiceNode *node
    cdef timespec now_
    cdef int64_t passed
    if slice.trigger == 0:
        return
    node = service_node(cluster, LOCAL, slice.object.namespace, slice.service, False)
    if node == NULL or node.record == NULL:
        return
    clock_gettime(CLOCK_REALTIME, &now_)
    passed = <int64_t>now_.tv_sec * 1000000000 + now_.tv_nsec - slice.trigger
    # Each cluster has a thread, and all write one row.
    pthread_mutex_lock(&latency_lock)
    metric_observe(&latency_buckets, headless_cell if node.record.flags & SERVICE_HEADLESS else cluster_ip_cell, METRIC_CONTROL,
                   <uint64_t>passed if passed > 0 else 0)
    pthread_mutex_unlock(&latency_lock)


cdef void sink_remove(void *self, Kind kind, const Object *object) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cdef EventResult outcome
    cluster_lock(cluster)
    if kind == KIND_SERVICE or kind == KIND_IMPORT:
        outcome = service_remove(cluster, LOCAL if kind == KIND_SERVICE else IMPORTED, object)
    elif kind == KIND_SLICE or kind == KIND_IMPORT_SLICE:
        outcome = slice_remove(cluster, LOCAL if kind == KIND_SLICE else IMPORTED, object)
    elif kind == KIND_POD:
        outcome = pod_remove(cluster, object)
    else:
        outcome = namespace_remove(cluster, object)
    count_event(cluster, kind, outcome, 0)
    cluster_unlock(cluster)


cdef void count_event(Cluster *cluster, Kind kind, EventResult outcome, int moves) noexcept nogil:
    """Updates counts and serials after an event. Additions and removals raise the serial of ordinary zones; changes only that of their own zones."""
    cluster.events += 1
    if cluster.events % BATCH == 0:
        memory_reclaim(&cluster.memory)
    if outcome == UNCHANGED or outcome == NO_MEMORY:
        return
    if outcome == ADDED:
        store_count(&cluster.count[<int>kind], cluster.count[<int>kind] + 1)
    elif outcome == REMOVED:
        store_count(&cluster.count[<int>kind], cluster.count[<int>kind] - 1)
    if kind == KIND_NAMESPACE:
        return
    if outcome != CHANGED:
        now(&cluster.serial)
    elif kind == KIND_IMPORT or kind == KIND_IMPORT_SLICE:
        now(&cluster.import_serial)
    else:
        if kind != KIND_SERVICE or moves & MOVES_INTERNAL:
            now(&cluster.serial)
        if moves & MOVES_EXTERNAL:
            now(&cluster.external_serial)


cdef uint32_t sweep(Cluster *cluster, Kind kind) noexcept nogil:
    """Drops what does not bear the mark of the kind's generation; returns how many."""
    cdef uint32_t gone
    if kind == KIND_NAMESPACE:
        gone = namespace_sweep(cluster)
    elif kind == KIND_SERVICE or kind == KIND_IMPORT:
        gone = service_sweep(cluster, LOCAL if kind == KIND_SERVICE else IMPORTED)
    elif kind == KIND_POD:
        gone = pod_sweep(cluster)
    else:
        gone = slice_sweep(cluster, LOCAL if kind == KIND_SLICE else IMPORTED)
    store_count(&cluster.count[<int>kind], cluster.count[<int>kind] - gone)
    if gone and kind != KIND_NAMESPACE:
        now(&cluster.serial)
    return gone


cdef int sink_commit(void *self, Kind kind) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cluster_lock(cluster)
    sweep(cluster, kind)
    if cluster.at_once[<int>kind] and addresses_fill(cluster, kind) < 0:
        cluster_unlock(cluster)
        return -1
    cluster.at_once[<int>kind] = 0
    cluster.listing[<int>kind] = 0
    if cluster.source[<int>kind] == SOURCE_SNAPSHOT:
        store_count(&cluster.stale, cluster.stale | (1 << kind))
    else:
        store_count(&cluster.stale, cluster.stale & ~<uint32_t>(1 << kind))
    store_count(&cluster.synced, cluster.synced | (1 << kind))
    memory_reclaim(&cluster.memory)
    cluster_unlock(cluster)
    return 0


cdef void sink_drop(void *self, Kind kind) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cluster_lock(cluster)
    cluster.generation[<int>kind] += 1
    cluster.listing[<int>kind] = 0
    store_count(&cluster.synced, cluster.synced & ~<uint32_t>(1 << kind))
    store_count(&cluster.stale, cluster.stale & ~<uint32_t>(1 << kind))
    sweep(cluster, kind)
    cluster.at_once[<int>kind] = 0
    memory_reclaim(&cluster.memory)
    cluster_unlock(cluster)


cdef void sink_flush(void *self) noexcept nogil:
    cdef Cluster *cluster = <Cluster *>self
    cluster_lock(cluster)
    memory_reclaim(&cluster.memory)
    cluster_unlock(cluster)


cdef class Store(Sink):
    def __cinit__(self, *args, **options):
        memset(&self.cluster, 0, sizeof(Cluster))
        self.cluster.lock = malloc(sizeof(pthread_mutex_t))
        if self.cluster.lock == NULL or pthread_mutex_init(<pthread_mutex_t *>self.cluster.lock, NULL) != 0:
            raise MemoryError
        nodes_begin(&self.cluster)
        slices_begin(&self.cluster)
        self.self_ = &self.cluster
        self.calls.begin = sink_begin
        self.calls.upsert = sink_upsert
        self.calls.remove = sink_remove
        self.calls.commit = sink_commit
        self.calls.drop = sink_drop
        self.calls.flush = sink_flush

    def __init__(self, *, bint places=False):
        self.cluster.places = places

    def __dealloc__(self):
        cdef Cluster *cluster = &self.cluster
        with nogil:
            epoch_wait()            # views are gone, but a worker may be in the batch that saw the last one
            slices_end(cluster)
            nodes_end(cluster)
            end_tables(cluster)
            memory_end(&cluster.memory)
            free(cluster.scratch)
            free(cluster.lock)

    cdef int replay(self, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil:
        return replay_kind(&self.cluster, kind, into, into_self)

    def lose(self, int kind, since):
        atomic_poke_ns(&self.cluster.lost[kind], 0 if since is None else <int64_t>(<double>since * 1e9))

    def limit_age(self, seconds, bint fails):
        atomic_poke_ns(&self.cluster.stale_after, 0 if seconds is None else <int64_t>(<double>seconds * 1e9))
        atomic_poke8(&self.cluster.stale_fails, fails)

    @property
    def synced(self) -> int:
        return load_count(&self.cluster.synced)

    @property
    def stale(self) -> int:
        return load_count(&self.cluster.stale)

    @property
    def serials(self) -> tuple[int, int, int]:
        return load_count(&self.cluster.serial), load_count(&self.cluster.import_serial), load_count(&self.cluster.external_serial)

    def counts(self) -> dict[str, int]:
        return {name: load_count(&self.cluster.count[<int>kind]) for kind, name in enumerate(KINDS)}

    def memory(self) -> tuple[int, int]:
        return self.cluster.memory.held, self.cluster.memory.used

    def reclaim(self) -> None:
        with nogil:
            sink_flush(&self.cluster)


cdef void end_tables(Cluster *cluster) noexcept nogil:
    end_table(cluster, &cluster.namespaces)
    end_table(cluster, &cluster.services[0])
    end_table(cluster, &cluster.services[1])
    end_table(cluster, &cluster.service_addresses)
    end_table(cluster, &cluster.external_addresses)
    end_table(cluster, &cluster.endpoint_addresses)
    end_table(cluster, &cluster.pod_addresses)
    end_table(cluster, &cluster.slices[0])
    end_table(cluster, &cluster.slices[1])
    end_table(cluster, &cluster.pods)
    end_table(cluster, &cluster.nodes)


cdef void end_table(Cluster *cluster, Table *table) noexcept nogil:
    if table.slots != NULL:
        memory_free(&cluster.memory, table.slots, table.slots.size)
        table.slots = NULL
