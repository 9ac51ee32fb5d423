"""Chooses endpoints and ports of a headless service."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp, memset
from fastdns.plugins.kubernetes.store.records cimport endpoint_hostname, slice_endpoints, slice_ports, slice_text


# ---- orders ----

cdef int text_compare(const char *a, uint32_t a_length, const char *b, uint32_t b_length) noexcept nogil:
    cdef int order = memcmp(a, b, min(a_length, b_length))
    return order if order else <int>a_length - <int>b_length


cdef int by_slice(const ChosenEndpoint *a, const ChosenEndpoint *b) noexcept nogil:
    cdef int order = text_compare(slice_text(a.slice), a.slice.name_length, slice_text(b.slice), b.slice.name_length)
    return order if order else (a.endpoint > b.endpoint) - (a.endpoint < b.endpoint)


cdef int by_address(const void *x, const void *y) noexcept nogil:
    """By address, then by the names that an endpoint may have."""
    cdef const ChosenEndpoint *a = <const ChosenEndpoint *>x
    cdef const ChosenEndpoint *b = <const ChosenEndpoint *>y
    cdef int order = <int>a.endpoint.family - <int>b.endpoint.family
    if order == 0:
        order = memcmp(a.endpoint.ip, b.endpoint.ip, 4 if a.endpoint.family == 4 else 16 if a.endpoint.family else 1)
    if order == 0:
        order = text_compare(slice_text(a.slice) + endpoint_hostname(a.endpoint), <uint32_t>a.endpoint.hostname_length + a.endpoint.pod_length,
                             slice_text(b.slice) + endpoint_hostname(b.endpoint), <uint32_t>b.endpoint.hostname_length + b.endpoint.pod_length)
    return order if order else by_slice(a, b)


cdef int in_slices(const void *x, const void *y) noexcept nogil:
    return by_slice(<const ChosenEndpoint *>x, <const ChosenEndpoint *>y)


cdef int by_name(const void *x, const void *y) noexcept nogil:
    """By name and protocol, then by number."""
    cdef const PortOrder *a = <const PortOrder *>x
    cdef const PortOrder *b = <const PortOrder *>y
    cdef int order = text_compare(a.text + a.port.text, <uint32_t>a.port.name_length + a.port.protocol_length,
                                  b.text + b.port.text, <uint32_t>b.port.name_length + b.port.protocol_length)
    if order == 0:
        order = <int>a.port.number - <int>b.port.number
    return order if order else <int>a.number - <int>b.number


# ---- endpoints ----

cdef bint choose_endpoints(Selection *selection, uint64_t endpoints) noexcept nogil:
    cdef const SliceRecord *slice = selection.slices
    cdef uint32_t i
    cdef uint64_t used = 0
    selection.chosen = <ChosenEndpoint *>malloc(endpoints * sizeof(ChosenEndpoint))
    if selection.chosen == NULL:
        return False
    while slice != NULL:
        for i in range(slice.endpoint_count):
            selection.chosen[used].slice = slice
            selection.chosen[used].endpoint = &slice_endpoints(slice)[i]
            used += 1
        slice = slice.next
    qsort(selection.chosen, used, sizeof(ChosenEndpoint), by_address)
    selection.count = ENDPOINTS_MOST
    selection.endpoints_left_out = used - ENDPOINTS_MOST
    qsort(selection.chosen, selection.count, sizeof(ChosenEndpoint), in_slices)
    return True


cdef bint next_group(const Selection *selection, const SliceRecord **slice, uint32_t *at, uint32_t *endpoints) noexcept nogil:
    """The next slice, and how many of its endpoints are chosen; `slice` is NULL and `at` is 0 at first."""
    if selection.chosen == NULL:
        slice[0] = slice[0].next if slice[0] != NULL else selection.slices
        if slice[0] == NULL:
            return False
        endpoints[0] = slice[0].endpoint_count
        return True
    if at[0] == selection.count:
        return False
    slice[0] = selection.chosen[at[0]].slice
    endpoints[0] = 0
    while at[0] < selection.count and selection.chosen[at[0]].slice == slice[0]:
        endpoints[0] += 1
        at[0] += 1
    return True


# ---- ports ----

cdef uint32_t count_ports(const SliceRecord *slice, bint unnamed) noexcept nogil:
    cdef uint32_t i, count = 0
    for i in range(slice.port_count):
        count += unnamed or slice_ports(slice)[i].name_length != 0
    return count


cdef uint64_t count_records(const Selection *selection, uint32_t ports_most) noexcept nogil:
    """SRV records with at most so many ports of a slice."""
    cdef const SliceRecord *slice = NULL
    cdef uint32_t at = 0, endpoints
    cdef uint64_t records = 0
    while next_group(selection, &slice, &at, &endpoints):
        records += <uint64_t>endpoints * min(count_ports(slice, selection.unnamed), ports_most)
    return records


cdef uint64_t count_endpoints(const Selection *selection) noexcept nogil:
    cdef const SliceRecord *slice = selection.slices
    cdef uint64_t endpoints = 0
    while slice != NULL:
        endpoints += slice.endpoint_count
        slice = slice.next
    return endpoints


cdef void choose_ports(Selection *selection, uint64_t endpoints) noexcept nogil:
    cdef uint64_t records = count_records(selection, 0xFFFFFFFFu), most = SRV_FREE + SRV_EACH * endpoints
    cdef uint32_t low = 1, high = 65536, middle
    selection.ports_most = 0xFFFFFFFFu
    if records <= most:
        return
    while high - low > 1:
        middle = (low + high) // 2
        if count_records(selection, middle) <= most:
            low = middle
        else:
            high = middle
    selection.ports_most = low
    selection.ports_left_out = records - count_records(selection, low)


cdef void read_ports(Selection *selection, const SliceRecord *slice) noexcept nogil:
    """Puts the numbers of the slice's chosen ports into selection.ports."""
    cdef PortOrder *order = selection.order
    cdef uint32_t i, count = 0
    for i in range(slice.port_count):
        if selection.unnamed or slice_ports(slice)[i].name_length:
            order[count].text = slice_text(slice)
            order[count].port = &slice_ports(slice)[i]
            order[count].number = i
            count += 1
    if count > selection.ports_most:
        qsort(order, count, sizeof(PortOrder), by_name)
        count = selection.ports_most
    for i in range(count):
        selection.ports[i] = order[i].number
    selection.port_count = count
    selection.current = slice


# ---- the selection ----

cdef bint selection_begin(Selection *selection, const SliceRecord *slices, bint unnamed) noexcept nogil:
    cdef const SliceRecord *slice = slices
    cdef uint64_t endpoints
    cdef uint32_t ports = 0
    memset(selection, 0, sizeof(Selection))
    selection.slices = slices
    selection.unnamed = unnamed
    while slice != NULL:
        ports = max(ports, <uint32_t>slice.port_count)
        slice = slice.next
    selection.ports = <uint32_t *>malloc(ports * sizeof(uint32_t) + 1)
    selection.order = <PortOrder *>malloc(ports * sizeof(PortOrder) + 1)
    endpoints = count_endpoints(selection)
    if selection.ports == NULL or selection.order == NULL or (endpoints > ENDPOINTS_MOST and not choose_endpoints(selection, endpoints)):
        selection_end(selection)
        return False
    choose_ports(selection, min(endpoints, <uint64_t>ENDPOINTS_MOST))
    selection_rewind(selection)
    return True


cdef void selection_end(Selection *selection) noexcept nogil:
    free(selection.chosen)
    free(selection.ports)
    free(selection.order)
    memset(selection, 0, sizeof(Selection))


cdef void selection_rewind(Selection *selection) noexcept nogil:
    selection.slice = selection.slices
    selection.current = NULL
    selection.next = 0


cdef bint selection_next(Selection *selection, ChosenEndpoint *out) noexcept nogil:
    if selection.chosen != NULL:
        if selection.next == selection.count:
            return False
        out[0] = selection.chosen[selection.next]
    else:
        while selection.slice != NULL and selection.next == selection.slice.endpoint_count:
            selection.slice = selection.slice.next
            selection.next = 0
        if selection.slice == NULL:
            return False
        out.slice = selection.slice
        out.endpoint = &slice_endpoints(selection.slice)[selection.next]
    selection.next += 1
    if selection.current != out.slice:
        read_ports(selection, out.slice)
    return True
