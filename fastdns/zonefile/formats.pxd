"""What the rdata of each record type is made of: one table for reading text and for checking wire."""
from libc.stdint cimport uint8_t, uint16_t

cdef enum:
    FIELDS_MAX = 9

cdef enum Kind:                 # how a field is written, and what it is on the wire
    END
    U8
    U16
    U32
    PERIOD                      # 4 octets
    MOMENT                      # 4
    TYPE                        # 2
    ALGORITHM                   # 1
    ALGORITHM_ANY_CASE          # 1
    CERTIFICATE                 # 2
    A                           # 4
    AAAA                        # 16
    NAME
    STRING
    QUOTED                      # a string that must stand in quotes
    FLOAT                       # a string that must be a number
    STRINGS                     # to the end, as those below
    PAIR                        # two strings, of which one line may be made in two ways (HINFO)
    FIRST_STRING                # further ones are dropped (UINFO)
    TARGET                      # octets without a length
    HEX
    BASE64
    BITMAP
    SALT                        # hex with a length
    HASH32
    EUI48
    EUI64
    NODE
    GATEWAY                     # by the type in octet 1 (IPSECKEY)
    DISCOVERY                   # the top bit of the octet that follows (AMTRELAY)
    RELAY                       # by the type in octet 1 below that bit
    LOCATION
    PREFIXES                    # APL
    HOST_IDENTITY               # HIP
    PARAMETERS                  # SVCB

cdef struct Field:
    Kind kind
    const char *failure

cdef struct Format:
    uint8_t known
    uint8_t lower               # names are put in lower case
    Field fields[FIELDS_MAX]

# How the type is written, or NULL.
cdef const Format *format_find(uint16_t type) noexcept nogil
