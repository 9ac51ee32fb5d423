"""Queries of HTTP requests, whatever the version and the service: how they begin, and how their replies leave."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.engine.http.request cimport HttpRequest

# A DNS message of a request, which borrows it until the batch ends. The service's `reject`, `fail` or `reply` runs now or later.
cdef void http_query(HttpRequest *request, const uint8_t *message, uint32_t length) noexcept nogil
