"""Labels of metadata out of a database of addresses; each is looked up when somebody reads it."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport atoi, strtod
from libc.string cimport strchr
from fastdns.api.query cimport NativeHandler, Query, handler_init
from fastdns.api.wire cimport wire_subnet
from fastdns.api.metadata cimport Label, LabelHandle
from fastdns.api.text cimport Text, text_char, text_number, text_put, text_string
from fastdns.plugins.geoip._mmdb cimport (KIND_ARRAY, KIND_BOOLEAN, KIND_TEXT, LOOKUP_BROKEN, LOOKUP_FOUND, Database, Lookup, Mmdb, Value, mmdb_find,
                                          mmdb_float, mmdb_member, mmdb_skip, mmdb_unsigned, mmdb_value)

cdef enum Shape:                    # how a value is written
    SHAPE_TEXT
    SHAPE_BOOLEAN
    SHAPE_NUMBER
    SHAPE_FLOAT
    SHAPE_CODES                     # iso_code of each of an array's maps, with commas between

cdef enum:
    PATH_MAX = 3
    SUBNET = 0x100                  # in a label's key: the client-subnet option counts

cdef struct Field:                  # of the database, by label
    Shape shape
    const char *path[PATH_MAX]      # keys of maps within maps, up to a NULL

cdef Field fields[13]
CITY = ("city/name", "country/name", "country/code", "country/is_in_european_union", "continent/name", "continent/code", "subdivisions/code", "latitude",
        "longitude", "timezone", "postalcode")
ASN = ("asn/number", "asn/org")


cdef void set_field(int number, Shape shape, const char *first, const char *second, const char *third) noexcept:
    fields[number].shape = shape
    fields[number].path[0] = first
    fields[number].path[1] = second
    fields[number].path[2] = third


set_field(0, SHAPE_TEXT, b"city", b"names", b"en")
set_field(1, SHAPE_TEXT, b"country", b"names", b"en")
set_field(2, SHAPE_TEXT, b"country", b"iso_code", NULL)
set_field(3, SHAPE_BOOLEAN, b"country", b"is_in_european_union", NULL)
set_field(4, SHAPE_TEXT, b"continent", b"names", b"en")
set_field(5, SHAPE_TEXT, b"continent", b"code", NULL)
set_field(6, SHAPE_CODES, b"subdivisions", NULL, NULL)
set_field(7, SHAPE_FLOAT, b"location", b"latitude", NULL)
set_field(8, SHAPE_FLOAT, b"location", b"longitude", NULL)
set_field(9, SHAPE_TEXT, b"location", b"time_zone", NULL)
set_field(10, SHAPE_TEXT, b"postal", b"code", NULL)
set_field(11, SHAPE_NUMBER, b"autonomous_system_number", NULL, NULL)
set_field(12, SHAPE_TEXT, b"autonomous_system_organization", NULL, NULL)


# ---- one label of one query ----

cdef bint publish(const Label *label, Query *q, Text *out) noexcept nogil:
    """An address that is not in the database has empty texts, false and 0, as in CoreDNS."""
    cdef const Mmdb *db = <const Mmdb *>label.argument
    cdef const Field *field = &fields[label.key & 0xFF]
    cdef uint8_t subnet[16]
    cdef const uint8_t *ip = q.client.octets
    cdef uint8_t family = q.client.family
    cdef uint8_t other
    cdef uint64_t at
    cdef Value value
    cdef Lookup found
    cdef bint there
    if label.key & SUBNET:
        other = wire_subnet(&q.message.edns, subnet)
        if other:
            ip = subnet
            family = other
    found = mmdb_find(db, ip, family, &at)
    if found == LOOKUP_BROKEN:
        return False
    there = found == LOOKUP_FOUND and mmdb_value(db, at, &value) and follow(db, field, &value)
    write(db, field.shape, &value if there else NULL, out)
    return True


cdef bint follow(const Mmdb *db, const Field *field, Value *value) noexcept nogil:
    cdef Value map
    cdef int i
    for i in range(PATH_MAX):
        if field.path[i] == NULL:
            break
        map = value[0]
        if not mmdb_member(db, &map, field.path[i], value):
            return False
    return True


cdef void write(const Mmdb *db, Shape shape, const Value *value, Text *out) noexcept nogil:
    """value is NULL where the database has none."""
    cdef uint64_t number = 0
    cdef double real
    if shape == SHAPE_BOOLEAN:
        text_string(out, b"true" if value != NULL and value.kind == KIND_BOOLEAN and value.size else b"false")
    elif shape == SHAPE_NUMBER:
        if value != NULL:
            mmdb_unsigned(db, value, &number)
        text_number(out, number)
    elif value == NULL:
        return
    elif shape == SHAPE_TEXT:
        write_text(db, value, out)
    elif shape == SHAPE_FLOAT:
        if mmdb_float(db, value, &real):
            write_float(real, out)
    else:
        write_codes(db, value, out)


cdef void write_text(const Mmdb *db, const Value *value, Text *out) noexcept nogil:
    if value.kind == KIND_TEXT:
        text_put(out, <const char *>db.values + value.at, value.size)


cdef void write_codes(const Mmdb *db, const Value *value, Text *out) noexcept nogil:
    cdef uint64_t at = value.at
    cdef uint32_t i
    cdef Value map
    cdef Value code
    if value.kind != KIND_ARRAY:
        return
    for i in range(value.size):
        if i:
            text_char(out, c",")
        if mmdb_value(db, at, &map) and mmdb_member(db, &map, b"iso_code", &code):
            write_text(db, &code, out)
        at = mmdb_skip(db, at)
        if at == 0 or out.full:
            return


cdef void write_float(double number, Text *out) noexcept nogil:
    """The shortest decimal that reads as this number, without an exponent."""
    cdef char digits[32]
    cdef const char *exponent
    cdef int precision, point, i, count
    for precision in range(17):
        snprintf(digits, sizeof(digits), b"%.*e", precision, number)
        if strtod(digits, NULL) == number:
            break
    exponent = strchr(digits, c"e")
    if exponent == NULL:            # no number, or infinite: coordinates are neither
        return
    if digits[0] == c"-":
        text_char(out, c"-")
    count = 0
    for i in range(<int>(exponent - digits)):
        if c"0" <= digits[i] <= c"9":
            digits[count] = digits[i]
            count += 1
    point = atoi(exponent + 1) + 1  # digits in front of the point
    if point <= 0:
        text_string(out, b"0.")
        for i in range(-point):
            text_char(out, c"0")
    for i in range(count):
        if i == point and i > 0:
            text_char(out, c".")
        text_char(out, digits[i])
    for i in range(point - count):
        text_char(out, c"0")


# ---- set-up ----

cdef class GeoipHandler(NativeHandler):
    cdef Database database
    cdef dict keys
    cdef bint subnet

    def __init__(self, Database database not None, *, bint city, bint asn, bint subnet=False):
        handler_init(self)
        NativeHandler.__init__(self, "geoip")
        self.database = database
        self.subnet = subnet
        names = (CITY if city else ()) + (ASN if asn else ())
        self.keys = {name: number for number, name in enumerate(CITY + ASN) if name in names}

    def label(self, str name not None):
        cdef LabelHandle handle
        if name not in self.keys:
            return None
        handle = LabelHandle()
        handle.label.value = publish
        handle.label.handler = &self.handler
        handle.label.key = self.keys[name] | (SUBNET if self.subnet else 0)
        handle.label.argument = <const char *>&self.database.mmdb
        handle.kept = self.database
        return handle
