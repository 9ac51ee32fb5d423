"""TLS on a worker's connections. The contract is in engine/io/tls.pxd."""
from libc cimport errno as system
from libc.errno cimport EAGAIN, ECONNRESET
from libc.stdint cimport uint8_t
from cpython.object cimport PyObject

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *handle, const char *name)
    enum: RTLD_NOW

cdef enum:                              # of OpenSSL's headers, the same since 1.1
    SSL_ERROR_WANT_READ = 2
    SSL_ERROR_WANT_WRITE = 3
    SSL_ERROR_ZERO_RETURN = 6
    SSL_CTRL_MODE = 33
    SSL_MODE_PARTIAL_MOVING_WRITE = 3

ctypedef int (*read_func)(SSL *ssl, void *octets, int size) noexcept nogil
ctypedef int (*write_func)(SSL *ssl, const void *octets, int size) noexcept nogil
ctypedef int (*error_func)(const SSL *ssl, int status) noexcept nogil
ctypedef int (*act_func)(SSL *ssl) noexcept nogil
ctypedef void (*free_func)(SSL *ssl) noexcept nogil
ctypedef void (*clear_func)() noexcept nogil
ctypedef long (*control_func)(SSL *ssl, int command, long number, void *pointer) noexcept nogil
ctypedef void *(*make_func)(const void *kind) noexcept nogil
ctypedef void *(*kind_func)() noexcept nogil
ctypedef void *(*part_func)(const SSL *ssl) noexcept nogil
ctypedef void (*set_func)(SSL *ssl, void *bio) noexcept nogil
ctypedef int (*bio_write_func)(void *bio, const void *octets, int size) noexcept nogil
ctypedef size_t (*count_func)(void *bio) noexcept nogil
ctypedef int (*verify_func)(void *store, void *argument) noexcept nogil
ctypedef void (*judge_func)(void *context, verify_func verify, void *argument) noexcept nogil

cdef struct Library:                    # OpenSSL's functions, by its names
    read_func SSL_read
    write_func SSL_write
    error_func SSL_get_error
    act_func SSL_pending
    act_func SSL_shutdown
    free_func SSL_free
    clear_func ERR_clear_error
    control_func SSL_ctrl
    part_func SSL_get_rbio
    set_func SSL_set0_rbio
    make_func BIO_new
    kind_func BIO_s_mem
    bio_write_func BIO_write
    count_func BIO_ctrl_pending
    part_func SSL_get_SSL_CTX
    judge_func SSL_CTX_set_cert_verify_callback

cdef Library library

cdef struct ContextObject:              # of the module `_ssl`
    PyObject head
    void *context

cdef struct SocketObject:               # likewise
    PyObject head
    void *socket
    SSL *ssl
    void *context


# ---- on a worker ----

cdef int tls_feed(SSL *ssl, const uint8_t *octets, size_t size) noexcept nogil:
    return 0 if library.BIO_write(library.SSL_get_rbio(ssl), octets, <int>size) == <int>size else -1


cdef bint tls_pending(SSL *ssl) noexcept nogil:
    return library.SSL_pending(ssl) > 0 or library.BIO_ctrl_pending(library.SSL_get_rbio(ssl)) > 0


cdef ssize_t tls_recv(SSL *ssl, uint8_t *octets, size_t size) noexcept nogil:
    cdef int n = library.SSL_read(ssl, octets, <int>size)
    return n if n > 0 else failed(ssl, n)


cdef ssize_t tls_send(SSL *ssl, const uint8_t *octets, size_t size) noexcept nogil:
    cdef int n = library.SSL_write(ssl, octets, <int>size)
    return n if n > 0 else failed(ssl, n)


cdef ssize_t failed(SSL *ssl, int status) noexcept nogil:
    """Why a call did nothing. What it left in the thread's queue of errors would be taken for the next call's."""
    cdef int what = library.SSL_get_error(ssl, status)
    library.ERR_clear_error()
    if what == SSL_ERROR_ZERO_RETURN:
        return 0
    system.errno = EAGAIN if what == SSL_ERROR_WANT_READ or what == SSL_ERROR_WANT_WRITE else ECONNRESET
    return -1


cdef void tls_end(SSL *ssl) noexcept nogil:
    library.SSL_shutdown(ssl)
    library.SSL_free(ssl)
    library.ERR_clear_error()


# ---- on the fronts' thread ----

cdef void *find(void *handle, const char *name) except NULL:
    cdef void *function = dlsym(handle, name)
    if function == NULL:
        raise LookupError(name.decode())
    return function


def find_library() -> None:
    """Looks OpenSSL's functions up, once; see engine/io/tls.pyi."""
    cdef void *handle
    import _ssl
    import ssl
    import sys
    if library.BIO_ctrl_pending != NULL:
        return
    if sys.version_info >= (3, 15):     # what a socket object looks like there is not known
        raise LookupError("a newer Python")
    path = getattr(_ssl, "__file__", None)
    if path is None:                    # a part of the interpreter
        handle = dlopen(NULL, RTLD_NOW)
    else:
        encoded = path.encode()
        handle = dlopen(encoded, RTLD_NOW)
    if handle == NULL:
        raise LookupError(path)
    library.SSL_read = <read_func>find(handle, b"SSL_read")
    library.SSL_write = <write_func>find(handle, b"SSL_write")
    library.SSL_get_error = <error_func>find(handle, b"SSL_get_error")
    library.SSL_pending = <act_func>find(handle, b"SSL_pending")
    library.SSL_shutdown = <act_func>find(handle, b"SSL_shutdown")
    library.SSL_free = <free_func>find(handle, b"SSL_free")
    library.ERR_clear_error = <clear_func>find(handle, b"ERR_clear_error")
    library.SSL_ctrl = <control_func>find(handle, b"SSL_ctrl")
    library.SSL_get_rbio = <part_func>find(handle, b"SSL_get_rbio")
    library.SSL_set0_rbio = <set_func>find(handle, b"SSL_set0_rbio")
    library.BIO_new = <make_func>find(handle, b"BIO_new")
    library.BIO_s_mem = <kind_func>find(handle, b"BIO_s_mem")
    library.BIO_write = <bio_write_func>find(handle, b"BIO_write")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    probe = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    library.SSL_get_SSL_CTX = <part_func>find(handle, b"SSL_get_SSL_CTX")
    library.SSL_CTX_set_cert_verify_callback = <judge_func>find(handle, b"SSL_CTX_set_cert_verify_callback")
    fields = <SocketObject *><PyObject *>probe._sslobj
    if fields.socket != NULL or fields.ssl == NULL or fields.context != <void *><PyObject *>context or (
            (<ContextObject *>fields.context).context != library.SSL_get_SSL_CTX(fields.ssl)):
        raise LookupError("an unknown socket object")
    library.BIO_ctrl_pending = <count_func>find(handle, b"BIO_ctrl_pending")


cdef SSL *tls_take(sock) except NULL:
    cdef SocketObject *fields
    cdef SSL *ssl
    cdef void *bio
    if library.BIO_ctrl_pending == NULL:
        raise RuntimeError("no library")
    socket_object = sock._sslobj
    fields = <SocketObject *><PyObject *>socket_object
    ssl = fields.ssl
    bio = library.BIO_new(library.BIO_s_mem()) if ssl != NULL else NULL
    if bio == NULL:
        raise RuntimeError("no memory")
    # Taken, not shared: what Python does to it when the socket object goes would happen while a worker uses it.
    fields.ssl = NULL
    library.SSL_set0_rbio(ssl, bio)
    library.SSL_ctrl(ssl, SSL_CTRL_MODE, SSL_MODE_PARTIAL_MOVING_WRITE, NULL)
    return ssl


cdef int accept_anybody(void *store, void *argument) noexcept nogil:
    return 1


def trust_anybody(context not None) -> None:
    """Takes any certificate of a client; see engine/io/tls.pyi."""
    find_library()
    library.SSL_CTX_set_cert_verify_callback((<ContextObject *><PyObject *>context).context, accept_anybody, NULL)
