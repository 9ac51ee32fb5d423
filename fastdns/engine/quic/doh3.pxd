"""DNS over HTTP/3 (RFC 8484, RFC 9114). quiche has the frames and QPACK; what requests ask and responses say stands here."""
from fastdns.engine.quic.state cimport QuicProtocol

cdef enum:
    FIELDS_MAX = 16384              # octets of a request's fields, and 32 for each (RFC 9114 4.2.2): more are answered with 431
    SECTION_MAX = 32768             # of which more end the connection
    HEADLESS_MAX = 32               # requests of a connection whose fields have come in part

cdef enum DohStatus:                # what is counted
    DOH_200
    DOH_400
    DOH_404
    DOH_431
    DOH_500

cdef QuicProtocol doh3_protocol
