"""Writing the store: addresses of endpoints and pods; see addresses.pxd."""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.plugins.kubernetes.store.find cimport address_hash
from fastdns.plugins.kubernetes.store.memory cimport (Filling, Table, slots_fill, slots_filled, slots_new, table_insert,
                                                      table_insert_once, table_next, table_publish, table_remove, table_room)
from fastdns.plugins.kubernetes.decode.objects cimport KIND_POD, KIND_SLICE
from fastdns.plugins.kubernetes.store.records cimport LOCAL, EndpointRecord, slice_endpoints


cdef uint64_t pod_address_hash(const void *entry) noexcept nogil:
    cdef const PodRecord *pod = <const PodRecord *>entry
    return address_hash(pod.data, pod.family)


cdef void addresses_begin(Cluster *cluster) noexcept nogil:
    cluster.pod_addresses.hash = pod_address_hash


# ---- slices ----

cdef inline const SliceRecord *next_slice(const Cluster *cluster, uint32_t *place) noexcept nogil:
    return <const SliceRecord *>table_next(&cluster.slices[LOCAL], place)


cdef int make_table(Cluster *cluster, uint32_t entries) noexcept nogil:
    """A table of the addresses of all slices, with room for so many entries."""
    cdef const EndpointRecord *endpoint
    cdef const SliceRecord *record
    cdef Filling filling
    cdef uint32_t place = 0, i
    filling.slots = slots_new(&cluster.memory, entries)
    filling.count = filling.used = 0
    if filling.slots == NULL:
        return -1
    record = next_slice(cluster, &place)
    while record != NULL:
        for i in range(record.endpoint_count):
            endpoint = &slice_endpoints(record)[i]
            if endpoint.family:
                slots_fill(&filling, address_hash(endpoint.ip, endpoint.family), record)
        record = next_slice(cluster, &place)
    slots_filled(&filling)
    table_publish(&cluster.endpoint_addresses, &cluster.memory, filling.slots, filling.used)
    return 0


cdef int slice_addresses_room(Cluster *cluster, const SliceRecord *record) noexcept nogil:
    cdef Table *table = &cluster.endpoint_addresses
    if cluster.at_once[<int>KIND_SLICE] or table_room(table, record.endpoint_count):
        return 0
    return make_table(cluster, table.used + record.endpoint_count)


cdef void slice_addresses_put(Cluster *cluster, const SliceRecord *record, bint remove) noexcept nogil:
    cdef Table *table = &cluster.endpoint_addresses
    cdef const EndpointRecord *endpoint
    cdef uint32_t i
    for i in range(0 if cluster.at_once[<int>KIND_SLICE] else record.endpoint_count):
        endpoint = &slice_endpoints(record)[i]
        if endpoint.family == 0:
            continue
        if remove:
            table_remove(table, address_hash(endpoint.ip, endpoint.family), record)
        else:
            table_insert_once(table, &cluster.memory, address_hash(endpoint.ip, endpoint.family), record)


cdef int fill_slices(Cluster *cluster) noexcept nogil:
    cdef const SliceRecord *record
    cdef uint64_t entries = 0
    cdef uint32_t place = 0
    record = next_slice(cluster, &place)
    while record != NULL:
        entries += record.endpoint_count
        record = next_slice(cluster, &place)
    return make_table(cluster, <uint32_t>min(entries, <uint64_t>0xFFFFFFFFu))


# ---- pods ----

cdef int pod_address_put(Cluster *cluster, const PodRecord *pod) noexcept nogil:
    if pod.family == 0 or cluster.at_once[<int>KIND_POD]:
        return 0
    return table_insert(&cluster.pod_addresses, &cluster.memory, pod_address_hash(pod), pod)


cdef bint pod_address_remove(Cluster *cluster, const PodRecord *pod) noexcept nogil:
    return pod.family != 0 and not cluster.at_once[<int>KIND_POD] and table_remove(&cluster.pod_addresses, pod_address_hash(pod), pod)


cdef int fill_pods(Cluster *cluster) noexcept nogil:
    cdef const PodRecord *pod
    cdef Filling filling
    cdef uint32_t place = 0
    filling.slots = slots_new(&cluster.memory, cluster.pods.used)
    filling.count = filling.used = 0
    if filling.slots == NULL:
        return -1
    pod = <const PodRecord *>table_next(&cluster.pods, &place)
    while pod != NULL:
        if pod.family:
            slots_fill(&filling, pod_address_hash(pod), pod)
        pod = <const PodRecord *>table_next(&cluster.pods, &place)
    slots_filled(&filling)
    table_publish(&cluster.pod_addresses, &cluster.memory, filling.slots, filling.used)
    return 0


cdef int addresses_fill(Cluster *cluster, Kind kind) noexcept nogil:
    return fill_slices(cluster) if kind == KIND_SLICE else fill_pods(cluster) if kind == KIND_POD else 0
