"""The name of an object that cannot be decoded, from its JSON; see outline.pyi."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef Py_ssize_t string_end(const uint8_t *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """Behind the quote that ends the string which begins at `at`; `end` where it does not end."""
    at += 1
    while at < end and data[at] != b'"':
        at += 2 if data[at] == b'\\' else 1
    return min(at + 1, end)


cdef bint is_plain(const uint8_t *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    """True if a string has no escapes, and ASCII alone: as all names of objects."""
    while at < end and data[at] < 0x80 and data[at] != b'\\':
        at += 1
    return at == end


cdef Py_ssize_t write_outline(const uint8_t *data, Py_ssize_t end, int levels, uint8_t *out) noexcept nogil:
    """Writes the outline, which is at most as long; returns its length."""
    cdef Py_ssize_t at = 0, next_, length = 0, depth = 0
    while at < end:
        next_ = string_end(data, at, end) if data[at] == b'"' else at + 1
        if data[at] == b'}' or data[at] == b']':
            depth -= 1
            if depth >= levels:
                at = next_
                continue
        elif data[at] == b'{' or data[at] == b'[':
            depth += 1
            if depth == levels + 1:
                out[length] = b'0'
                length += 1
        if depth <= levels and data[at] == b'"' and not is_plain(data, at, next_):
            memcpy(out + length, b'""', 2)
            length += 2
        elif depth <= levels:
            memcpy(out + length, data + at, <size_t>(next_ - at))
            length += next_ - at
        at = next_
    return length


def outline(bytes octets not None, int levels):
    cdef bytes out = PyBytes_FromStringAndSize(NULL, len(octets))
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(octets)
    cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(out)
    cdef Py_ssize_t end = len(octets), length
    with nogil:
        length = write_outline(data, end, levels, to)
    return out[:length]


def identify(bytes octets not None):
    import msgspec

    from fastdns.plugins.kubernetes.decode import models

    try:
        metadata = msgspec.json.decode(outline(octets, 2), type=models.Outlined).metadata
    except (msgspec.DecodeError, UnicodeError):
        return "", "", ""
    if metadata is None or not isinstance(metadata.name, str) or not isinstance(metadata.namespace or "", str):
        return "", "", ""
    return metadata.namespace or "", metadata.name, metadata.version if isinstance(metadata.version, str) else ""


def identify_event(bytes octets not None):
    import msgspec

    from fastdns.plugins.kubernetes.decode import models

    try:
        event = msgspec.json.decode(outline(octets, 3), type=models.OutlinedEvent)
    except (msgspec.DecodeError, UnicodeError):
        return "", ("", "", "")
    return event.type if isinstance(event.type, str) else "", identify(bytes(event.object))
