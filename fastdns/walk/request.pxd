"""The request of a child: octets for whoever forwards it."""
from fastdns.walk.query cimport Query

# Makes child.packet from its name, type, class and EDNS.
cdef void request_write(Query *child) noexcept nogil
