"""Whom handshakes of Python's `ssl` trust; see fronts/trust.pyi."""
from cpython.object cimport PyObject

cdef extern from "<dlfcn.h>" nogil:
    void *dlopen(const char *path, int flags)
    void *dlsym(void *handle, const char *name)
    enum: RTLD_NOW

ctypedef int (*verify_func)(void *store, void *argument) noexcept nogil
ctypedef void (*judge_func)(void *context, verify_func verify, void *argument) noexcept nogil
ctypedef void *(*part_func)(const void *ssl) noexcept nogil

cdef struct ContextObject:              # of the module `_ssl`
    PyObject head
    void *context

cdef struct SocketObject:               # likewise
    PyObject head
    void *socket
    void *ssl
    void *context

cdef judge_func set_verify = NULL


cdef void *find(void *handle, const char *name) except NULL:
    cdef void *function = dlsym(handle, name)
    if function == NULL:
        raise LookupError(name.decode())
    return function


cdef int find_library() except -1:
    """In the library that `_ssl` is linked to."""
    global set_verify
    cdef void *handle
    cdef part_func context_of
    cdef SocketObject *fields
    import _ssl
    import ssl
    import sys
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    probe = context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
    context_of = <part_func>find(handle, b"SSL_get_SSL_CTX")
    fields = <SocketObject *><PyObject *>probe._sslobj
    if fields.socket != NULL or fields.ssl == NULL or fields.context != <void *><PyObject *>context or (
            (<ContextObject *>fields.context).context != context_of(fields.ssl)):
        raise LookupError("an unknown socket object")
    set_verify = <judge_func>find(handle, b"SSL_CTX_set_cert_verify_callback")
    return 0


cdef int accept_anybody(void *store, void *argument) noexcept nogil:
    return 1


def trust_anybody(context not None) -> None:
    """Takes any certificate of a client; see fronts/trust.pyi."""
    if set_verify == NULL:
        find_library()
    set_verify((<ContextObject *><PyObject *>context).context, accept_anybody, NULL)
