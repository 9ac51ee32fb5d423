"""The end of a connection whose client may still be sending: what it sends is read and dropped for a while. If the socket were closed at once, the
kernel would answer that with a reset, which discards what the client has not read yet (RFC 9112 9.6)."""
from fastdns.walk.query cimport Worker

# Becomes the owner of the descriptor of a connection whose last reply is sent.
cdef void linger_begin(Worker *worker, int fd) noexcept nogil
