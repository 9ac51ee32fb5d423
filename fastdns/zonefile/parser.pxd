"""Master files (RFC 1035 5): conversion from text to records in wire form, without the GIL. Behaviour and error texts are those of CoreDNS's parser.

    parser = zonefile_begin(&origin)            # NULL: out of memory
    status = zonefile_read(parser, path, sink, self)
    raise zonefile_error(parser)                # when status < 0
    zonefile_end(parser)

$ORIGIN, $TTL, $INCLUDE (relative to the including file, 7 levels deep) and $GENERATE (65,536 steps) are supported. Names outside the origin are
passed on; the sink may refuse them. Any thread but a worker may parse; a parser is used by one thread at a time.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns._wire cimport Name

cdef struct ZoneRecord:         # valid until the sink returns
    const Name *owner           # all fields set; case as written
    uint8_t same_owner          # the owner is that of the record before
    uint16_t type
    uint16_t klass
    uint16_t rdlength
    uint32_t ttl
    uint8_t *rdata              # wire form, names uncompressed; may be changed in place (rdata_lower)
    const char *path            # of the file, perhaps one that was included
    uint32_t line               # that the record begins in, from 1; of the $GENERATE that made it

cdef enum:                      # results
    ZONEFILE_OK = 0
    ZONEFILE_FAILED = -1        # syntax error; zonefile_error makes the exception
    ZONEFILE_UNREADABLE = -2    # the file itself (not an $INCLUDE) cannot be opened or read; zonefile_error makes an OSError
    ZONEFILE_MEMORY = -3        # out of memory
    # above 0: the result of the sink

# Called for each record. 0: continue; above 0: stop, zonefile_read returns this number.
ctypedef int (*zone_sink)(void *self, ZoneRecord *record) noexcept nogil

cdef enum:
    ZONE_PATH_MAX = 4096
    ZONE_TOKEN_MAX = 512        # octets of a token in an error text

cdef struct ZoneParser:
    Name origin
    uint8_t has_ttl             # the caller may set it: records without a TTL get `ttl` until a record or $TTL gives one
    uint32_t ttl                # seconds
    # ---- private ----
    zone_sink sink
    void *self
    uint8_t *rdata
    void *outermost             # the Frame of the text, kept so that parsing a text without directives allocates nothing
    uint8_t fresh               # the next record has another owner than the one before
    int outcome
    int error_number
    uint32_t line
    uint32_t column
    uint32_t token_length
    char token[ZONE_TOKEN_MAX]
    char path[ZONE_PATH_MAX]
    char text[2 * ZONE_PATH_MAX + 256]

cdef ZoneParser *zonefile_begin(const Name *origin) noexcept nogil
cdef int zonefile_read(ZoneParser *parser, const char *path, zone_sink sink, void *self) noexcept nogil
# As zonefile_read, for a text in memory. path is used in error texts and as the base of $INCLUDE. The text is borrowed until the function returns.
cdef int zonefile_parse(ZoneParser *parser, const char *text, size_t length, const char *path, zone_sink sink, void *self) noexcept nogil
# The exception for the last failure: ZoneFileError, OSError or MemoryError. With the GIL.
cdef object zonefile_error(const ZoneParser *parser)
cdef void zonefile_end(ZoneParser *parser) noexcept nogil
