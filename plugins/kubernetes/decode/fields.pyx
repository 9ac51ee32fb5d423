"""The typed texts inside Kubernetes objects, and the arrays an object is built in; see _fields.pxd."""
from libc.stdlib cimport free, realloc
from libc.string cimport memset
from fastdns.api.network cimport address_parse


cdef void scratch_init(Scratch *scratch) noexcept nogil:
    memset(scratch, 0, sizeof(Scratch))


cdef void scratch_free(Scratch *scratch) noexcept nogil:
    free(scratch.cluster_ips.data)
    free(scratch.external_ips.data)
    free(scratch.ports.data)
    free(scratch.endpoints.data)
    free(scratch.labels.data)
    memset(scratch, 0, sizeof(Scratch))


cdef void *array_add(Array *array, uint32_t size, uint32_t limit) noexcept nogil:
    cdef uint32_t capacity
    cdef void *moved
    cdef char *element
    if array.count >= limit:
        return NULL
    if array.count == array.capacity:
        capacity = array.capacity * 2 if array.capacity else 16
        moved = realloc(array.data, <size_t>capacity * size)
        if moved == NULL:
            return NULL
        array.data = moved
        array.capacity = capacity
    element = <char *>array.data + <size_t>array.count * size
    memset(element, 0, size)
    array.count += 1
    return element


# ---- texts ----

cdef void address_set(Address *address, Span text) noexcept nogil:
    address.text = text
    address.family = address_parse(text.data, text.length, address.ip)


cdef uint64_t version_parse(Span text) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint32_t i
    cdef int digit
    if text.length > 19:            # the largest number of 19 digits still fits
        return 0
    for i in range(text.length):
        digit = text.data[i] - 48
        if digit < 0 or digit > 9:
            return 0
        number = number * 10 + <uint64_t>digit
    return number


cdef inline int digits(const char *at, int count) noexcept nogil:
    """A number of so many digits, or a very negative number when they are none."""
    cdef int number = 0, i
    for i in range(count):
        if at[i] < 48 or at[i] > 57:
            return -100000
        number = number * 10 + at[i] - 48
    return number


cdef inline int64_t days_since_1970(int64_t year, int month, int day) noexcept nogil:
    """Of a date in the proleptic Gregorian calendar: years begin in March, so that the leap day is the last."""
    cdef int64_t era, of_era, of_year
    year -= month <= 2
    era = (year if year >= 0 else year - 399) // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef inline int month_days(int year, int month) noexcept nogil:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


cdef int time_parse(Span text, int64_t *when) noexcept nogil:
    cdef const char *at = text.data
    cdef const char *end = text.data + text.length
    cdef int year, month, day, hour, minute, second
    cdef int64_t fraction = 0, scale = 1000000000, offset = 0
    cdef int sign = 1
    if text.length < 20 or at[4] != b'-' or at[7] != b'-' or at[10] != b'T' or at[13] != b':' or at[16] != b':':
        return -1
    year = digits(at, 4)
    month = digits(at + 5, 2)
    day = digits(at + 8, 2)
    hour = digits(at + 11, 2)
    minute = digits(at + 14, 2)
    second = digits(at + 17, 2)
    if year < 0 or month < 1 or month > 12 or day < 1 or day > month_days(year, month):
        return -1
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return -1
    at += 19
    if at[0] == b'.' or at[0] == b',':
        at += 1
        if at == end or at[0] < 48 or at[0] > 57:
            return -1
        while at < end and 48 <= at[0] <= 57:
            scale = scale // 10
            fraction += (at[0] - 48) * scale
            at += 1
    if at == end:
        return -1
    if at[0] == b'Z':
        if at + 1 != end:
            return -1
    else:
        if end - at != 6 or (at[0] != b'+' and at[0] != b'-') or at[3] != b':':
            return -1
        if at[0] == b'-':
            sign = -1
        hour -= sign * digits(at + 1, 2)
        minute -= sign * digits(at + 4, 2)
        if digits(at + 1, 2) < 0 or digits(at + 1, 2) > 23 or digits(at + 4, 2) < 0 or digits(at + 4, 2) > 59:
            return -1
    offset = days_since_1970(year, month, day) * 86400 + <int64_t>hour * 3600 + minute * 60 + second
    if offset > 9000000000LL or offset < -9000000000LL:     # beyond what ns in 63 bits hold
        return -1
    when[0] = offset * 1000000000 + fraction
    return 0


# ---- objects ----

cdef int sentinel(Scratch *scratch) noexcept nogil:
    """A service or slice without ports counts as one port that no SRV shows."""
    cdef Port *port
    if scratch.ports.count == 0:
        port = add_port(scratch)
        if port == NULL:
            return NO_MEMORY
        port.number = -1
    return DECODED


cdef int finish_service(Scratch *scratch, Span cluster_ip, Span type) noexcept nogil:
    cdef Service *service = &scratch.service
    cdef Address *first
    cdef int status = sentinel(scratch)
    if status != DECODED:
        return status
    if scratch.cluster_ips.count == 0 and cluster_ip.length != 0:
        first = add_address(&scratch.cluster_ips)
        if first == NULL:
            return NO_MEMORY
        address_set(first, cluster_ip)
    first = <Address *>scratch.cluster_ips.data
    service.headless = scratch.cluster_ips.count != 0 and span_is(first.text, "None", 4)
    service.external = span_is(type, "ExternalName", 12)
    service.cluster_ips = first
    service.cluster_ip_count = 0 if service.headless else <unsigned short>scratch.cluster_ips.count
    service.external_ips = <Address *>scratch.external_ips.data
    service.external_ip_count = <unsigned short>scratch.external_ips.count
    service.ports = <Port *>scratch.ports.data
    service.port_count = <unsigned short>scratch.ports.count
    return DECODED


cdef int finish_slice(Scratch *scratch, Span trigger) noexcept nogil:
    cdef Slice *slice = &scratch.slice
    cdef int status = sentinel(scratch)
    if status != DECODED:
        return status
    slice.endpoints = <Endpoint *>scratch.endpoints.data
    slice.endpoint_count = scratch.endpoints.count
    slice.ports = <Port *>scratch.ports.data
    slice.port_count = <unsigned short>scratch.ports.count
    slice.trigger = 0
    scratch.trigger.length = 0
    if trigger.length != 0 and time_parse(trigger, &slice.trigger) < 0:
        scratch.trigger = trigger
    return DECODED


cdef int finish_import(Scratch *scratch, Span type) noexcept nogil:
    cdef Import *imported = &scratch.imported
    imported.headless = span_is(type, "Headless", 8)
    imported.ips = <Address *>scratch.cluster_ips.data
    imported.ip_count = <unsigned short>scratch.cluster_ips.count
    imported.ports = <Port *>scratch.ports.data
    imported.port_count = <unsigned short>scratch.ports.count
    return DECODED


cdef void finish_pod(Scratch *scratch) noexcept nogil:
    scratch.pod.labels = <Label *>scratch.labels.data
    scratch.pod.label_count = <unsigned short>scratch.labels.count
