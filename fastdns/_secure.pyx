"""TLS on a worker's connections. The contract is in _secure.pxd."""
import ssl
import sys

from libc.errno cimport EAGAIN, ECONNRESET, errno
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from cpython.object cimport PyObject
from fastdns._atomic cimport atomic_store32, atomic_load32
from fastdns._loop cimport Loop
from fastdns._mux cimport LISTENERS_MAX, TRANSPORT_TLS, Mail, Worker, mux_worker_count, mux_workers
from fastdns._socket cimport close, socket_clock
from fastdns._tcp cimport tcp_adopt, tcp_finish

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    enum: RTLD_NOW

cdef enum:                              # of OpenSSL's headers, the same since 1.0
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_WANT_WRITE = 3
    SSL_ERROR_ZERO_RETURN = 6
    SSL_CTRL_MODE = 33
    SSL_MODE_PARTIAL_MOVING_WRITE = 3
    LAYOUT_KNOWN = 0x030F0000           # up to, and without, this version of Python a socket's SSL object is where we look for it

ctypedef int (*read_func)(void *ssl, void *octets, int size) noexcept nogil
ctypedef int (*write_func)(void *ssl, const void *octets, int size) noexcept nogil
ctypedef int (*error_func)(const void *ssl, int status) noexcept nogil
ctypedef int (*ask_func)(const void *ssl) noexcept nogil
ctypedef int (*reference_func)(void *ssl) noexcept nogil
ctypedef void (*free_func)(void *ssl) noexcept nogil
ctypedef void (*clear_func)() noexcept nogil
ctypedef void (*ahead_func)(void *ssl, int yes) noexcept nogil
ctypedef long (*control_func)(void *ssl, int command, long number, void *pointer) noexcept nogil

cdef struct Library:
    read_func SSL_read
    write_func SSL_write
    error_func SSL_get_error
    ask_func SSL_has_pending
    reference_func SSL_up_ref
    reference_func SSL_shutdown
    free_func SSL_free
    clear_func ERR_clear_error
    ahead_func SSL_set_read_ahead
    control_func SSL_ctrl

cdef Library library

cdef struct Fields:                     # of a socket object of `_ssl`, behind the head of every object
    void *socket
    void *ssl
    void *context


# ---- on a worker ----

cdef ssize_t secure_recv(void *ssl, uint8_t *octets, size_t size) noexcept nogil:
    cdef int n
    library.ERR_clear_error()
    n = library.SSL_read(ssl, octets, <int>min(size, <size_t>0x7FFFFFFF))
    return n if n > 0 else failed(ssl, n)


cdef ssize_t secure_send(void *ssl, const uint8_t *octets, size_t size) noexcept nogil:
    cdef int n
    library.ERR_clear_error()
    n = library.SSL_write(ssl, octets, <int>min(size, <size_t>0x7FFFFFFF))
    return n if n > 0 else failed(ssl, n)


cdef ssize_t failed(void *ssl, int status) noexcept nogil:
    cdef int what = library.SSL_get_error(ssl, status)
    if what == SSL_ERROR_ZERO_RETURN:
        return 0
    errno = EAGAIN if what == SSL_ERROR_WANT_READ or what == SSL_ERROR_WANT_WRITE else ECONNRESET
    set_errno(errno)
    return -1


cdef bint secure_pending(void *ssl) noexcept nogil:
    return library.SSL_has_pending(ssl) != 0


cdef void secure_end(void *ssl) noexcept nogil:
    library.ERR_clear_error()
    library.SSL_shutdown(ssl)
    library.SSL_free(ssl)
    library.ERR_clear_error()
