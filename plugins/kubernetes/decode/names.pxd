"""Names of objects in protobuf that cannot be decoded, and their hashes."""
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from fastdns.plugins.kubernetes.decode.fields cimport version_parse
from fastdns.plugins.kubernetes.decode.objects cimport Object, Span
from fastdns.plugins.kubernetes.decode.protobuf cimport Field, Reader, next_field, reader

cdef enum:
    NAME_WORDS = 16                 # of a set of hashes; a power of two

cdef inline uint64_t name_hash(const Object *object) noexcept nogil:
    """FNV-1a of namespace and name. Names that are made to collide cost their sender the GIL, for events of theirs."""
    cdef uint64_t hash = 0xcbf29ce484222325ULL
    cdef unsigned int i
    for i in range(object.namespace.length):
        hash = (hash ^ <uint8_t>object.namespace.data[i]) * 0x100000001b3ULL
    for i in range(object.name.length):
        hash = (hash ^ <uint8_t>object.name.data[i]) * 0x100000001b3ULL
    return hash

cdef inline unsigned int name_word(const Object *object) noexcept nogil:
    return name_hash(object) >> 40 & (NAME_WORDS - 1)

cdef inline uint64_t name_bit(const Object *object) noexcept nogil:
    return <uint64_t>1 << (name_hash(object) >> 50 & 63)

cdef inline void read_name(Span body, Object *object) noexcept nogil:
    """Namespace, name and version of an object in protobuf, as far as they can be read."""
    cdef Reader r = reader(body)
    cdef Reader inner
    cdef Field field
    memset(object, 0, sizeof(Object))
    while next_field(&r, &field):
        if field.number != 1 or field.wire != 2:
            continue
        inner = reader(field.span)
        while next_field(&inner, &field):
            if field.wire != 2:
                continue
            if field.number == 1:
                object.name = field.span
            elif field.number == 3:
                object.namespace = field.span
            elif field.number == 6:
                object.version = version_parse(field.span)
