"""The typed texts inside Kubernetes objects, and the arrays an object is built in; see fields.pxd."""
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset
from fastdns.api.network cimport address_parse
from fastdns.plugins.kubernetes.decode.address_set cimport AddressSet, address_set_add, address_set_begin, address_set_end
from fastdns.plugins.kubernetes.decode.objects cimport (CUT_ENDPOINT_TEXTS, CUT_EXTERNAL_NAME, ENDPOINT_TEXT_MAX, EXTERNAL_NAME_MAX, HINTS_MAX,
                                                        HOST_NAME_MAX, LABEL_HEAD, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_OCTETS_MAX,
                                                        NAME_OCTETS_MAX, NODE_MAX, PORT_NAME_MAX, TEXT_MAX)


cdef void scratch_init(Scratch *scratch) noexcept nogil:
    memset(scratch, 0, sizeof(Scratch))


cdef void scratch_free(Scratch *scratch) noexcept nogil:
    free(scratch.cluster_ips.data)
    free(scratch.external_ips.data)
    free(scratch.ports.data)
    free(scratch.endpoints.data)
    free(scratch.labels.data)
    memset(scratch, 0, sizeof(Scratch))


cdef void scratch_begin(Scratch *scratch) noexcept nogil:
    scratch.cluster_ips.count = scratch.external_ips.count = scratch.ports.count = scratch.endpoints.count = scratch.labels.count = 0
    if scratch.is_cut:
        memset(scratch.cut, 0, sizeof(scratch.cut))
        scratch.is_cut = 0


cdef void *array_add(Scratch *scratch, Array *array, uint32_t size, uint32_t limit, Cut cut) noexcept nogil:
    cdef uint32_t capacity
    cdef void *moved
    cdef char *element
    if array.count >= limit:
        note_cut(scratch, cut, 1)
        memset(&scratch.spare, 0, sizeof(Spare))
        return &scratch.spare
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


# ---- limits ----

cdef uint32_t fit_ports(Scratch *scratch, uint32_t room) noexcept nogil:
    """Leaves out ports that no SRV record can name, and those for whose texts there is no room. Returns the octets that are left of it."""
    cdef Port *ports = <Port *>scratch.ports.data
    cdef Port *port
    cdef uint32_t i, length, kept = 0
    for i in range(scratch.ports.count):
        port = &ports[i]
        length = port.name.length + port.protocol.length
        if (port.number < -1 or port.number > 65535 or port.name.length > PORT_NAME_MAX or port.protocol.length > PORT_NAME_MAX
                or length > room):
            room = room if length <= room else 0            # the first ones stay
            note_cut(scratch, CUT_PORTS, 1)
            continue
        room -= length
        if kept != i:
            ports[kept] = port[0]
        kept += 1
    scratch.ports.count = kept
    return room


cdef int fit_externals(Scratch *scratch, uint32_t room) noexcept nogil:
    """Leaves out IP addresses that came before, texts that are no host name, and those for which there is no room."""
    cdef Address *addresses = <Address *>scratch.external_ips.data
    cdef Address *address
    cdef AddressSet different
    cdef uint32_t i, kept = 0
    if address_set_begin(&different, scratch.external_ips.count) < 0:
        return NO_MEMORY
    for i in range(scratch.external_ips.count):
        address = &addresses[i]
        if address.text.length > HOST_NAME_MAX or address.text.length > room:
            room = room if address.text.length <= room else 0
            note_cut(scratch, CUT_EXTERNAL_IPS, 1)
            continue
        if kept != i:
            addresses[kept] = address[0]
            address = &addresses[kept]
        if address.family and not address_set_add(&different, address.ip, address.family):
            continue
        room -= address.text.length
        kept += 1
    scratch.external_ips.count = kept
    address_set_end(&different)
    return DECODED


cdef void fit_endpoints(Scratch *scratch) noexcept nogil:
    cdef Endpoint *endpoints = <Endpoint *>scratch.endpoints.data
    cdef Endpoint *endpoint
    cdef uint32_t i, kept = 0
    for i in range(scratch.endpoints.count):
        endpoint = &endpoints[i]
        if endpoint.address.family == 0 and endpoint.address.text.length > HOST_NAME_MAX:
            note_cut(scratch, CUT_ENDPOINTS, 1)
            continue
        if kept != i:
            endpoints[kept] = endpoint[0]
            endpoint = &endpoints[kept]
        fit_text(scratch, &endpoint.hostname, ENDPOINT_TEXT_MAX)
        fit_text(scratch, &endpoint.zone, ENDPOINT_TEXT_MAX)
        fit_text(scratch, &endpoint.node, NODE_MAX)
        fit_text(scratch, &endpoint.hints, HINTS_MAX)
        kept += 1
    scratch.endpoints.count = kept


cdef inline void fit_text(Scratch *scratch, Span *text, uint32_t most) noexcept nogil:
    if text.length > most:
        text.length = 0
        note_cut(scratch, CUT_ENDPOINT_TEXTS, 1)


cdef bint labels_fit(const Scratch *scratch) noexcept nogil:
    cdef const Label *label
    cdef uint32_t i, octets = 0
    for i in range(scratch.labels.count):
        label = <const Label *>scratch.labels.data + i
        if label.key.length > LABEL_KEY_MAX or label.value.length > LABEL_VALUE_MAX:
            return False
        octets += LABEL_HEAD + label.key.length + label.value.length
    return octets <= LABELS_OCTETS_MAX and scratch.cut[<int>CUT_LABELS] == 0


cdef inline bint same_text(Span one, Span other) noexcept nogil:
    return one.length == other.length and (one.length == 0 or memcmp(one.data, other.data, one.length) == 0)


cdef void fit_labels(Scratch *scratch) noexcept nogil:
    """Of a key that comes twice the last value counts, as in Go. Labels beyond a limit are all unknown: rights must not rest on some of them."""
    cdef Label *labels = <Label *>scratch.labels.data
    cdef uint32_t i, k, kept = 0
    if not labels_fit(scratch):
        note_cut(scratch, CUT_LABELS, scratch.labels.count)
        scratch.labels.count = 0
        return
    for i in range(scratch.labels.count):
        k = 0
        while k < kept and not same_text(labels[k].key, labels[i].key):
            k += 1
        if k != i:
            labels[k] = labels[i]
        kept += k == kept
    scratch.labels.count = kept


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
    cdef int status
    if service.external_name.length > EXTERNAL_NAME_MAX:
        service.external_name.length = 0
        note_cut(scratch, CUT_EXTERNAL_NAME, 1)
    status = fit_externals(scratch, fit_ports(scratch, TEXT_MAX - service.external_name.length))
    if status == DECODED:
        status = sentinel(scratch)
    if status != DECODED:
        return status
    if scratch.cluster_ips.count == 0 and cluster_ip.length != 0:
        first = add_cluster_ip(scratch)
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
    cdef int status
    if slice.object.name.length > NAME_OCTETS_MAX or slice.cluster.length > LABEL_VALUE_MAX:
        return MALFORMED
    fit_endpoints(scratch)
    fit_ports(scratch, TEXT_MAX - slice.object.name.length - slice.cluster.length)
    status = sentinel(scratch)
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
    fit_ports(scratch, TEXT_MAX)
    imported.headless = span_is(type, "Headless", 8)
    imported.ips = <Address *>scratch.cluster_ips.data
    imported.ip_count = <unsigned short>scratch.cluster_ips.count
    imported.ports = <Port *>scratch.ports.data
    imported.port_count = <unsigned short>scratch.ports.count
    return DECODED


cdef int finish_pod(Scratch *scratch) noexcept nogil:
    if scratch.pod.object.name.length > NAME_OCTETS_MAX:
        return MALFORMED
    fit_labels(scratch)
    scratch.pod.labels = <Label *>scratch.labels.data
    scratch.pod.label_count = <unsigned short>scratch.labels.count
    return DECODED
