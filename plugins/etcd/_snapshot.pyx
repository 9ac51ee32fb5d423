"""The records below one path of etcd; see _snapshot.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport atomic_load_pointer, atomic_poke_ns, atomic_store_pointer, epoch_wait

import time


def _export() -> None:
    globals().update(HOST_NONE=HOST_NONE, HOST_TEXT=HOST_TEXT, HOST_NAME=HOST_NAME, HOST_4=HOST_4, HOST_6=HOST_6, HOST_BROKEN=HOST_BROKEN)


_export()


cdef int compare(const Snapshot *snapshot, const Service *service, const uint8_t *key, uint32_t length) noexcept nogil:
    cdef int order = memcmp(snapshot.octets + service.key, key, min(<uint32_t>service.key_length, length))
    return order if order else (service.key_length > length) - (service.key_length < length)


cdef uint32_t snapshot_bound(const Snapshot *snapshot, const uint8_t *key, uint32_t length) noexcept nogil:
    cdef uint32_t low = 0, high = snapshot.count, middle
    while low < high:
        middle = low + (high - low) // 2
        if compare(snapshot, &snapshot.services[middle], key, length) < 0:
            low = middle + 1
        else:
            high = middle
    return low


cdef uint32_t put(Snapshot *snapshot, uint32_t *used, bytes octets):
    cdef uint32_t at = used[0]
    memcpy(snapshot.octets + at, <const uint8_t *>octets, len(octets))
    used[0] += <uint32_t>len(octets)
    return at


cdef Snapshot *build(rows, leases) except NULL:
    cdef uint64_t size = sum([sum([len(part) for part in (row[0], row[2], row[4], row[5], row[6])]) for row in rows])
    cdef uint64_t head = sizeof(Snapshot) + len(rows) * <uint64_t>sizeof(Service) + len(leases) * <uint64_t>8
    cdef uint8_t *block
    cdef Snapshot *snapshot
    cdef Service *service
    cdef uint32_t i, used = 0
    if size > 0xFFFFFFFF or head > 1 << 40:
        raise MemoryError
    block = <uint8_t *>calloc(1, head + size + 1)
    if block == NULL:
        raise MemoryError
    snapshot = <Snapshot *>block
    snapshot.count = <uint32_t>len(rows)
    snapshot.lease_count = <uint32_t>len(leases)
    snapshot.leases = <int64_t *>(block + sizeof(Snapshot))
    snapshot.services = <Service *>(block + sizeof(Snapshot) + snapshot.lease_count * <uint64_t>8)
    snapshot.octets = block + head
    for i in range(snapshot.lease_count):
        snapshot.leases[i] = deadline(leases[i])
    for i in range(snapshot.count):
        service = &snapshot.services[i]
        key, kind, host, ip, name, text, group, has_host, ttl, lease, port, priority, weight, strip, mail = rows[i]
        service.key = put(snapshot, &used, key)
        service.key_length = <uint16_t>len(key)
        service.depth = <uint16_t>key.count(b"/")
        service.kind = kind
        service.host = put(snapshot, &used, host)
        service.host_length = <uint8_t>(len(host) if len(host) < 256 else 0)
        memcpy(service.ip, <const uint8_t *><bytes>ip, len(ip))
        service.name = put(snapshot, &used, name)
        service.name_length = <uint8_t>len(name)
        service.text = put(snapshot, &used, text)
        service.text_length = <uint16_t>len(text)
        service.group = put(snapshot, &used, group)
        service.group_length = <uint16_t>len(group)
        service.has_host = has_host
        service.ttl = ttl
        service.lease = lease
        service.port = port
        service.priority = priority
        service.weight = weight
        service.strip = strip
        service.mail = mail
    return snapshot


cdef int64_t deadline(double seconds):
    return time.monotonic_ns() + <int64_t>(seconds * 1e9) if seconds > 0 else 0


cdef class Records:
    def publish(self, rows, leases):
        cdef Snapshot *made = build(rows, leases)
        cdef Snapshot *old = self.source.snapshot
        atomic_store_pointer(<void **>&self.source.snapshot, made)
        if old != NULL:
            with nogil:
                epoch_wait()
                free(old)

    def renew(self, uint32_t lease, double seconds):
        if self.source.snapshot != NULL and lease < self.source.snapshot.lease_count:
            atomic_poke_ns(&self.source.snapshot.leases[lease], deadline(seconds))

    @property
    def synced(self):
        return atomic_load_pointer(<void **>&self.source.snapshot) != NULL

    def __dealloc__(self):
        if self.source.snapshot != NULL:
            with nogil:
                epoch_wait()
                free(self.source.snapshot)
