"""The names of a cluster's zone; see _name.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.network cimport address_parse
from fastdns.plugins.kubernetes.store.find cimport address_text


# ---- labels ----

cdef const uint8_t *label_at(const Name *name, uint32_t i) noexcept nogil:
    return name.lower + name.offset[i]


cdef bint is_text(const uint8_t *label, const char *wire, uint32_t length) noexcept nogil:
    return memcmp(label, wire, length) == 0


cdef Label whole(const uint8_t *label) noexcept nogil:
    cdef Label made
    made.text = label + 1
    made.length = label[0]
    return made


cdef Label bare(const uint8_t *label) noexcept nogil:
    """A label without one leading underscore."""
    cdef Label made = whole(label)
    if made.length and made.text[0] == c'_':
        made.text += 1
        made.length -= 1
    return made


cdef bint underscored(const uint8_t *label) noexcept nogil:
    return label[0] > 0 and label[1] == c'_'


cdef bint label_is(const Label *label, const char *text, uint32_t length) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t octet
    if label.length != length:
        return False
    for i in range(length):
        octet = <uint8_t>text[i]
        if 65 <= octet <= 90:
            octet += 32
        if octet != label.text[i]:
            return False
    return True


cdef bint name_port(const Wanted *wanted, const char *text, uint32_t name_length, uint32_t protocol_length) noexcept nogil:
    return ((wanted.port.length == 0 or label_is(&wanted.port, text, name_length))
            and (wanted.protocol.length == 0 or label_is(&wanted.protocol, text + name_length, protocol_length)))


# ---- the grammar ----

cdef void begin(Wanted *wanted, uint32_t zone) noexcept nogil:
    wanted.zone = zone
    wanted.form = FORM_NONE
    wanted.namespace = NULL
    wanted.pods = 0
    wanted.by_endpoint = 0
    wanted.by_port = 0
    wanted.endpoint_family = 0
    wanted.port.length = 0
    wanted.protocol.length = 0
    wanted.endpoint.length = 0
    wanted.cluster.length = 0
    wanted.direction = EVERYWHERE
    wanted.topology_length = 0


cdef void name_parse(const Name *name, uint32_t zone, int grammar, Wanted *wanted) noexcept nogil:
    cdef const uint8_t *last
    begin(wanted, zone)
    if zone == 0:
        wanted.form = FORM_APEX
        return
    last = label_at(name, zone - 1)
    if is_text(last, b"\x03pod", 4):
        wanted.pods = 1
    elif not is_text(last, b"\x03svc", 4):
        if zone == 2 and is_text(label_at(name, 0), b"\x02ns\x03dns", 7) and memcmp(
                name.wire + name.offset[2], name.lower + name.offset[2], name.length - name.offset[2]) == 0:
            wanted.form = FORM_SERVERS      # only where the zone is asked for in lower case: CoreDNS compares it with the lower-cased name
        elif zone == 1 and is_text(last, b"\x0bdns-version", 12):
            wanted.form = FORM_VERSION
        return
    if zone == 1:
        wanted.form = FORM_EMPTY
        return
    wanted.namespace = label_at(name, zone - 2)
    if zone == 2:
        wanted.form = FORM_NAMESPACE
        return
    wanted.service = label_at(name, zone - 3)
    wanted.key_length = wanted.service[0] + wanted.namespace[0] + 2
    parse_front(name, zone - 3, grammar, wanted)


cdef void parse_front(const Name *name, uint32_t labels, int grammar, Wanted *wanted) noexcept nogil:
    """The labels in front of the service."""
    cdef const uint8_t *first = label_at(name, 0)
    cdef const uint8_t *second
    cdef Form form = FORM_POD if wanted.pods else FORM_SERVICE
    if labels == 0:
        wanted.form = form
        return
    if labels == 1:
        wanted.form = form
        wanted.by_endpoint = 1
        set_endpoint(wanted, whole(first))
        return
    second = label_at(name, 1)
    if labels == 2:
        wanted.form = form
        if grammar & GRAMMAR_IMPORTED and not underscored(first) and not underscored(second):
            wanted.by_endpoint = 1
            set_endpoint(wanted, whole(first))
            wanted.cluster.text = second + 1
            wanted.cluster.length = second[0]
        else:
            wanted.port = bare(first)
            wanted.protocol = bare(second)
            wanted.by_port = 1
        return
    if form == FORM_SERVICE and grammar & (GRAMMAR_ZONAL | GRAMMAR_IMPORTED) == GRAMMAR_ZONAL and is_text(label_at(name, labels - 1), b"\x05_zone", 6):
        parse_topology(name, labels, wanted)


cdef void set_endpoint(Wanted *wanted, Label label) noexcept nogil:
    cdef bint exact = False
    wanted.endpoint = label
    wanted.endpoint_family = name_pod(label.text, label.length, wanted.endpoint_ip, &exact)
    if not exact:
        wanted.endpoint_family = 0


cdef void name_parse_external(const Name *name, uint32_t zone, Wanted *wanted) noexcept nogil:
    cdef Label endpoint
    begin(wanted, zone)
    if zone == 1:
        wanted.form = FORM_NAMESPACE
        wanted.namespace = label_at(name, 0)
    if zone < 2 or zone > 4:
        return
    wanted.form = FORM_SERVICE
    wanted.service = label_at(name, zone - 2)
    wanted.namespace = label_at(name, zone - 1)
    wanted.key_length = wanted.service[0] + wanted.namespace[0] + 2
    if zone == 3:
        endpoint = bare(label_at(name, 0))
        if endpoint.length:
            wanted.by_endpoint = 1
            set_endpoint(wanted, endpoint)
    elif zone == 4:
        wanted.port = bare(label_at(name, 0))
        wanted.protocol = bare(label_at(name, 1))
        wanted.by_port = 1


cdef void parse_topology(const Name *name, uint32_t labels, Wanted *wanted) noexcept nogil:
    """TOPOLOGY-ZONE.DIRECTION._zone: the topology zone may have several labels."""
    cdef const uint8_t *direction = label_at(name, labels - 2)
    cdef const uint8_t *label
    cdef uint32_t i, used = 0
    if is_text(direction, b"\x03pin", 4):
        wanted.direction = PIN
    elif is_text(direction, b"\x06prefer", 7):
        wanted.direction = PREFER
    else:
        return
    for i in range(labels - 2):
        label = label_at(name, i)
        if i:
            wanted.topology[used] = c'.'
            used += 1
        memcpy(wanted.topology + used, label + 1, label[0])
        used += label[0]
    wanted.topology_length = <uint8_t>used
    wanted.form = FORM_SERVICE


# ---- addresses in names ----

cdef uint32_t name_address(const uint8_t *ip, uint8_t family, char *out) noexcept nogil:
    cdef uint32_t i, length = address_text(ip, family, out)
    for i in range(length):
        if out[i] == c'.' or out[i] == c':':
            out[i] = c'-'
    if length and out[length - 1] == c'-':
        out[length] = c'0'
        length += 1
    return length


cdef uint8_t name_pod(const uint8_t *label, uint32_t length, uint8_t *ip, bint *exact) noexcept nogil:
    cdef char text[48]
    cdef uint32_t i, dashes = 0
    cdef bint double = False
    cdef char separator
    cdef uint8_t family
    exact[0] = False
    if length >= 46:
        return 0
    for i in range(length):
        if label[i] == c'-':
            dashes += 1
            double |= i > 0 and label[i - 1] == c'-'
        elif label[i] == c'.' or label[i] == c':':
            return 0
    separator = c'.' if dashes == 3 and not double else c':'
    for i in range(length):
        text[i] = separator if label[i] == c'-' else <char>label[i]
    family = address_parse(text, length, ip)
    if family:
        i = name_address(ip, family, text)
        exact[0] = i == length and memcmp(text, label, length) == 0
        # A text that ends in a colon has a 0 behind it as an endpoint's name, so as a pod's it is spelled without.
        if not exact[0] and i == length + 1 and text[length] == c'0' and text[length - 1] == c'-':
            exact[0] = memcmp(text, label, length) == 0
    return family


cdef bint name_is_reverse(const Name *name) noexcept nogil:
    cdef const uint8_t *tail
    if name.labels < 3:
        return False
    tail = label_at(name, name.labels - 2)
    return is_text(tail, b"\x07in-addr\x04arpa", 14) or is_text(tail, b"\x03ip6\x04arpa", 10)


cdef uint8_t name_reverse(const Name *name, uint8_t *ip) noexcept nogil:
    cdef const uint8_t *label
    cdef uint32_t i, k, value
    memset(ip, 0, 16)
    if name.labels == 6 and is_text(label_at(name, 4), b"\x07in-addr\x04arpa", 14):
        for i in range(4):
            label = label_at(name, i)
            value = 0
            if label[0] > 3 or (label[0] > 1 and label[1] == c'0'):
                return 0
            for k in range(<uint32_t>label[0]):
                if label[k + 1] < c'0' or label[k + 1] > c'9':
                    return 0
                value = value * 10 + label[k + 1] - c'0'
            if value > 255:
                return 0
            ip[3 - i] = <uint8_t>value
        return 4
    if name.labels == 34 and is_text(label_at(name, 32), b"\x03ip6\x04arpa", 10):
        for i in range(32):
            label = label_at(name, i)
            if label[0] != 1:
                return 0
            if c'0' <= label[1] <= c'9':
                value = label[1] - c'0'
            elif c'a' <= label[1] <= c'f':
                value = label[1] - c'a' + 10
            else:
                return 0
            ip[15 - i // 2] |= <uint8_t>(value << (4 * (i & 1)))
        return 6
    return 0
