"""Services whose records are not all in a zone."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset


cdef void trimmed_clear(Trimmed *trimmed) noexcept nogil:
    trimmed.changed |= trimmed.count != 0
    trimmed.count = 0
    trimmed.failed = 0


cdef void trimmed_free(Trimmed *trimmed) noexcept nogil:
    free(trimmed.services)
    memset(trimmed, 0, sizeof(Trimmed))


cdef uint32_t find(const Trimmed *trimmed, uint8_t world, const uint8_t *key, uint8_t length) noexcept nogil:
    cdef const TrimmedService *service
    cdef uint32_t i
    for i in range(trimmed.count):
        service = &trimmed.services[i]
        if service.world == world and service.length == length and memcmp(service.key, key, length) == 0:
            return i
    return trimmed.count


cdef void trimmed_set(Trimmed *trimmed, uint8_t world, const uint8_t *key, uint8_t length, uint64_t left_out) noexcept nogil:
    cdef uint32_t i
    if left_out == 0 and trimmed.count == 0:
        return
    i = find(trimmed, world, key, length)
    if left_out == 0:
        if i < trimmed.count:
            trimmed.count -= 1
            trimmed.services[i] = trimmed.services[trimmed.count]
            trimmed.changed = 1
        return
    if trimmed.services == NULL:
        trimmed.services = <TrimmedService *>calloc(TRIMMED_MOST, sizeof(TrimmedService))
    if trimmed.services == NULL or i == TRIMMED_MOST:
        trimmed.failed = 1
        return
    if i == trimmed.count:
        trimmed.count += 1
        trimmed.services[i].world = world
        trimmed.services[i].length = length
        memcpy(trimmed.services[i].key, key, length)
    elif trimmed.services[i].left_out == left_out:
        return
    trimmed.services[i].left_out = left_out
    trimmed.changed = 1


cdef dict trimmed_dict(const Trimmed *trimmed):
    cdef uint32_t i
    services = {}
    for i in range(trimmed.count):
        services[trimmed.services[i].world, (<const char *>trimmed.services[i].key)[:trimmed.services[i].length]] = trimmed.services[i].left_out
    return services
