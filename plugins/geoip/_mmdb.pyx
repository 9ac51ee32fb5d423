"""Databases in MaxMind's format; see _mmdb.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, strlen

from ipaddress import ip_address

cdef enum:
    SEPARATOR = 16                  # octets between tree and values
    POINTER_1 = 2048                # what pointers of two and three octets begin at
    POINTER_2 = 526336
    DEPTH_MAX = 32                  # of values within values, in Python

MARKER = b"\xab\xcd\xefMaxMind.com"


# ---- the tree ----

cdef uint32_t child(const Mmdb *db, uint32_t node, uint32_t bit) noexcept nogil:
    """node is below db.nodes."""
    cdef const uint8_t *p
    if db.record_size == 24:
        p = db.tree + node * <uint64_t>6 + 3 * bit
        return (<uint32_t>p[0] << 16) | (<uint32_t>p[1] << 8) | p[2]
    if db.record_size == 28:
        p = db.tree + node * <uint64_t>7
        if bit:
            return ((<uint32_t>p[3] & 15) << 24) | (<uint32_t>p[4] << 16) | (<uint32_t>p[5] << 8) | p[6]
        return ((<uint32_t>p[3] >> 4) << 24) | (<uint32_t>p[0] << 16) | (<uint32_t>p[1] << 8) | p[2]
    p = db.tree + node * <uint64_t>8 + 4 * bit
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef Lookup mmdb_find(const Mmdb *db, const uint8_t *ip, uint8_t family, uint64_t *at) noexcept nogil:
    cdef uint32_t node = db.four if family == 4 else 0
    cdef uint32_t i, bits = 32 if family == 4 else 128
    if family == 6 and db.ip_version == 4:
        return LOOKUP_BROKEN
    for i in range(bits):
        if node >= db.nodes:
            break
        node = child(db, node, (ip[i >> 3] >> (7 - (i & 7))) & 1)
    if node == db.nodes:
        return LOOKUP_MISSED
    if node < db.nodes or node - db.nodes < SEPARATOR or node - db.nodes - SEPARATOR >= db.length:
        return LOOKUP_BROKEN
    at[0] = node - db.nodes - SEPARATOR
    return LOOKUP_FOUND


# ---- values ----

cdef uint64_t number_at(const Mmdb *db, uint64_t at, uint32_t size) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint32_t i
    for i in range(size):
        number = (number << 8) | db.values[at + i]
    return number


cdef bint read_head(const Mmdb *db, uint64_t at, Value *value) noexcept nogil:
    """Kind and size; of a pointer the place that it points to, in `at`."""
    cdef uint32_t control, extra
    if at >= db.length:
        return False
    control = db.values[at]
    at += 1
    value.kind = <Kind>(control >> 5)
    value.size = control & 31
    if value.kind == KIND_POINTER:
        extra = ((control >> 3) & 3) + 1
        if db.length - at < extra:
            return False
        value.at = number_at(db, at, extra)
        if extra < 4:
            value.at |= <uint64_t>(control & 7) << (8 * extra)
        value.at += POINTER_1 if extra == 2 else POINTER_2 if extra == 3 else 0
        value.next = at + extra
        return True
    if value.kind == 0:             # the kind stands in the next octet
        if at >= db.length:
            return False
        value.kind = <Kind>(db.values[at] + 7)
        at += 1
    if value.size >= 29:
        extra = value.size - 28
        if db.length - at < extra:
            return False
        value.size = <uint32_t>number_at(db, at, extra) + (29 if extra == 1 else 285 if extra == 2 else 65821)
        at += extra
    value.at = at
    value.next = at
    if value.kind != KIND_MAP and value.kind != KIND_ARRAY and value.kind != KIND_BOOLEAN:
        if db.length - at < value.size:
            return False
        value.next = at + value.size
    return True


cdef bint mmdb_value(const Mmdb *db, uint64_t at, Value *value) noexcept nogil:
    cdef uint64_t behind
    if not read_head(db, at, value):
        return False
    if value.kind != KIND_POINTER:
        return True
    behind = value.next
    if not read_head(db, value.at, value) or value.kind == KIND_POINTER:
        return False
    value.next = behind
    return True


cdef uint64_t mmdb_skip(const Mmdb *db, uint64_t at) noexcept nogil:
    """Values are counted, not descended into: however deep they lie in each other, no octet is read twice."""
    cdef uint64_t left = 1
    cdef Value value
    while left:
        left -= 1
        if not read_head(db, at, &value):
            return 0
        if value.kind == KIND_MAP:
            left += <uint64_t>2 * value.size
        elif value.kind == KIND_ARRAY:
            left += value.size
        if left > db.length:        # each takes an octet at least
            return 0
        at = value.next
    return at


cdef bint mmdb_member(const Mmdb *db, const Value *map, const char *key, Value *value) noexcept nogil:
    cdef uint32_t i, length = <uint32_t>strlen(key)
    cdef uint64_t at = map.at
    cdef Value name
    if map.kind != KIND_MAP:
        return False
    for i in range(map.size):
        if not mmdb_value(db, at, &name) or name.kind != KIND_TEXT:
            return False
        if name.size == length and memcmp(db.values + name.at, key, length) == 0:
            return mmdb_value(db, name.next, value)
        at = mmdb_skip(db, name.next)
        if at == 0:
            return False
    return False


cdef bint mmdb_unsigned(const Mmdb *db, const Value *value, uint64_t *number) noexcept nogil:
    if value.kind not in (KIND_UINT16, KIND_UINT32, KIND_UINT64) or value.size > 8:
        return False
    number[0] = number_at(db, value.at, value.size)
    return True


cdef bint mmdb_float(const Mmdb *db, const Value *value, double *number) noexcept nogil:
    cdef uint64_t bits = 0
    cdef uint32_t half
    cdef float single
    if value.kind == KIND_DOUBLE and value.size == 8:
        bits = number_at(db, value.at, 8)
        memcpy(number, &bits, 8)
        return True
    if value.kind == KIND_FLOAT and value.size == 4:
        half = <uint32_t>number_at(db, value.at, 4)
        memcpy(&single, &half, 4)
        number[0] = single
        return True
    return False


# ---- files ----

cdef object python_value(const Mmdb *db, uint64_t at, int depth):
    """A value as Python has it; raises ValueError where it is broken."""
    cdef Value value
    cdef uint64_t number
    cdef double real
    cdef uint32_t i
    if depth > DEPTH_MAX or not mmdb_value(db, at, &value):
        raise ValueError("a value is broken")
    at = value.at
    if value.kind == KIND_TEXT:
        return (<const char *>db.values)[at : at + value.size].decode("utf-8", "replace")
    if value.kind == KIND_MAP:
        found = {}
        for i in range(value.size):
            name = python_value(db, at, depth + 1)
            at = mmdb_skip(db, at)
            found[str(name)] = python_value(db, at, depth + 1)
            at = mmdb_skip(db, at)
        return found
    if value.kind == KIND_ARRAY:
        items = []
        for i in range(value.size):
            items.append(python_value(db, at, depth + 1))
            at = mmdb_skip(db, at)
        return items
    if value.kind == KIND_BOOLEAN:
        return value.size != 0
    if mmdb_unsigned(db, &value, &number):
        return number
    if mmdb_float(db, &value, &real):
        return real
    if value.kind == KIND_INT32 and value.size <= 4:
        number = number_at(db, at, value.size)
        return <int32_t>number if value.size == 4 else number
    if value.kind == KIND_BYTES or value.kind == KIND_UINT128:
        octets = (<const char *>db.values)[at : at + value.size]
        return octets if value.kind == KIND_BYTES else int.from_bytes(octets, "big")
    raise ValueError(f"a value has the unknown kind {<int>value.kind}")


cdef class Database:
    def __init__(self, bytes data not None):
        cdef Mmdb *db = &self.mmdb
        cdef const uint8_t *octets = data
        cdef Mmdb head
        cdef Py_ssize_t marker = data.rfind(MARKER)
        cdef uint64_t tree
        cdef int i
        if marker < 0:
            raise ValueError("error opening database: invalid MaxMind DB file")
        head.values = octets + marker + len(MARKER)
        head.length = len(data) - marker - len(MARKER)
        metadata = python_value(&head, 0, 0)
        if not isinstance(metadata, dict):
            raise ValueError("the MaxMind DB contains invalid metadata")
        wanted = {name: metadata.get(name) for name in ("node_count", "record_size", "ip_version", "binary_format_major_version")}
        if not all(isinstance(number, int) and number <= 0xFFFFFFFF for number in wanted.values()) or wanted["binary_format_major_version"] != 2:
            raise ValueError("the MaxMind DB contains invalid metadata")
        db.nodes = wanted["node_count"]
        db.record_size = wanted["record_size"]
        db.ip_version = wanted["ip_version"]
        if db.record_size not in (24, 28, 32):
            raise ValueError("unsupported record size")
        tree = db.nodes * <uint64_t>(db.record_size // 4)
        if db.ip_version not in (4, 6) or tree + SEPARATOR > <uint64_t>marker:
            raise ValueError("the MaxMind DB contains invalid metadata")
        self.data = data
        self.type = str(metadata.get("database_type", ""))
        db.tree = octets
        db.values = octets + tree + SEPARATOR
        db.length = marker - tree - SEPARATOR
        if db.ip_version == 6:
            for i in range(96):
                if db.four < db.nodes:
                    db.four = child(db, db.four, 0)

    def get(self, str address not None):
        cdef uint64_t at = 0
        cdef Lookup found
        ip = ip_address(address)
        cdef bytes octets = ip.packed
        found = mmdb_find(&self.mmdb, octets, <uint8_t>ip.version, &at)
        if found == LOOKUP_BROKEN:
            raise ValueError("the search tree is broken, or has no addresses of this family")
        return python_value(&self.mmdb, at, 0) if found == LOOKUP_FOUND else None
