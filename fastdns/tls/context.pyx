"""Contexts of TLS servers and clients. The contract is in tls/context.pxd."""
import os

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strlen
from libc.time cimport time_t, tm
from fastdns.system.atomic cimport atomic_add32
from fastdns.system.digest import hash_of
from fastdns.system.socket cimport close, iovec
from fastdns.system.spinlock cimport spin_free, spin_try
from fastdns.tls.openssl cimport (ASN1_TIME, ASN1_TIME_to_tm, BIO, BIO_free, BIO_new_mem_buf, CRYPTO_EX_DATA, ERR_GET_LIB, ERR_GET_REASON,
                                  ERR_LIB_PEM, ERR_clear_error, ERR_peek_error, ERR_peek_last_error, ERR_reason_error_string, EVP_PKEY, EVP_PKEY_free,
                                  OPENSSL_NPN_NEGOTIATED, OPENSSL_VERSION, OpenSSL_version, PEM_R_NO_START_LINE, PEM_read_bio_PrivateKey,
                                  PEM_read_bio_X509, PEM_read_bio_X509_AUX, SSL_CTX_add0_chain_cert, SSL_CTX_add_client_CA, SSL_CTX_check_private_key,
                                  SSL_CTX_free, SSL_CTX_get0_certificate, SSL_CTX_get0_param, SSL_CTX_get_cert_store, SSL_CTX_get_ex_data,
                                  SSL_CTX_get_ex_new_index, SSL_CTX_load_verify_dir, SSL_CTX_load_verify_file, SSL_CTX_new, SSL_CTX_set1_groups_list,
                                  SSL_CTX_set_alpn_protos, SSL_CTX_set_alpn_select_cb, SSL_CTX_set_cert_verify_callback, SSL_CTX_set_cipher_list,
                                  SSL_CTX_set_ciphersuites, SSL_CTX_set_ex_data, SSL_CTX_set_keylog_callback, SSL_CTX_set_max_early_data,
                                  SSL_CTX_set_min_proto_version, SSL_CTX_set_mode, SSL_CTX_set_options, SSL_CTX_set_session_cache_mode,
                                  SSL_CTX_set_session_id_context, SSL_CTX_set_verify, SSL_CTX_up_ref, SSL_CTX_use_PrivateKey, SSL_CTX_use_certificate,
                                  SSL_METHOD, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, SSL_MODE_ENABLE_PARTIAL_WRITE, SSL_MODE_NO_AUTO_CHAIN,
                                  SSL_MODE_RELEASE_BUFFERS, SSL_OP_CIPHER_SERVER_PREFERENCE, SSL_OP_NO_COMPRESSION, SSL_OP_NO_RENEGOTIATION,
                                  SSL_OP_PRIORITIZE_CHACHA, SSL_SESS_CACHE_OFF, SSL_TLSEXT_ERR_ALERT_FATAL, SSL_TLSEXT_ERR_NOACK, SSL_TLSEXT_ERR_OK,
                                  SSL_VERIFY_FAIL_IF_NO_PEER_CERT, SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_get_SSL_CTX, SSL_new, SSL_select_next_proto,
                                  TLS1_2_VERSION, TLS1_3_VERSION, TLS_client_method, TLS_server_method, X509, X509_STORE, X509_STORE_CTX, X509_STORE_add_cert,
                                  X509_VERIFY_PARAM_set_flags, X509_V_FLAG_PARTIAL_CHAIN, X509_free, X509_get0_notAfter, X509_get0_notBefore)
from fastdns.tls.renewal import states_of
from fastdns.tls.stores import system_store
from fastdns.tls.tickets cimport tickets_use

cdef extern from "<time.h>" nogil:
    time_t timegm(tm *parts)

cdef extern from "<sys/uio.h>" nogil:
    ssize_t writev(int fd, const iovec *parts, int count)

#: Words of ``client_auth``, and what a handshake asks of the client then.
_VERIFY = {
    "nocert": SSL_VERIFY_NONE,
    "request": SSL_VERIFY_PEER,
    "require": SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
    "verify_if_given": SSL_VERIFY_PEER,
    "require_and_verify": SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
}
CLIENT_AUTH = tuple(_VERIFY)

# Suites of TLS 1.3 and 1.2 in the server's order, as in Go: forward secrecy and AEAD. With AES-256 comes SHA-384, a tenth of a handshake's cost.
cdef const char *SUITES = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
cdef const char *CIPHERS = b"ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20"
# Groups, as in Go: with ML-KEM where the library has it (OpenSSL 3.5).
cdef const char *GROUPS = b"X25519MLKEM768:X25519:P-256:P-384:P-521"
cdef const char *GROUPS_BEFORE = b"X25519:P-256:P-384:P-521"


class TlsError(ValueError):
    """See tls/context.pyi."""


class MismatchError(TlsError):
    """See tls/context.pyi."""


class AuthorityError(TlsError):
    """See tls/context.pyi."""


# ---- references ----

cdef void context_hold(TlsContext *context) noexcept nogil:
    atomic_add32(&context.references, 1)


cdef void context_release(TlsContext *context) noexcept nogil:
    if atomic_add32(&context.references, <uint32_t>-1) == 0:
        SSL_CTX_free(context.current)
        free(context)


cdef inline void lock(TlsContext *context) noexcept nogil:
    while not spin_try(&context.lock):
        pass


cdef SSL *context_ssl(TlsContext *context) noexcept nogil:
    cdef SSL_CTX *current
    cdef SSL *ssl
    lock(context)
    current = context.current
    SSL_CTX_up_ref(current)
    spin_free(&context.lock)
    ssl = SSL_new(current)
    SSL_CTX_free(current)
    return ssl


# ---- what a handshake calls ----

cdef struct Policy:                 # owned by one of the library's contexts
    int keylog                      # descriptor, or -1
    bint strict
    uint32_t length                 # of protocols
    uint8_t protocols[1]            # in truth as many as that; each with its length in front


cdef void free_policy(void *parent, void *data, CRYPTO_EX_DATA *all, int index, long number, void *pointer) noexcept nogil:
    cdef Policy *policy = <Policy *>data
    if policy != NULL:
        if policy.keylog >= 0:
            close(policy.keylog)
        free(policy)

cdef int policy_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_policy)


cdef int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *theirs, unsigned int theirs_length,
                         void *argument) noexcept nogil:
    """Called only where the client names protocols."""
    cdef Policy *policy = <Policy *>argument
    if SSL_select_next_proto(<unsigned char **>out, length, policy.protocols, policy.length, theirs, theirs_length) == OPENSSL_NPN_NEGOTIATED:
        return SSL_TLSEXT_ERR_OK
    return SSL_TLSEXT_ERR_ALERT_FATAL if policy.strict else SSL_TLSEXT_ERR_NOACK


cdef void log_secret(const SSL *ssl, const char *line) noexcept nogil:
    """Whole lines, whoever else writes to the file."""
    cdef Policy *policy = <Policy *>SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), policy_index)
    cdef iovec parts[2]
    parts[0].iov_base = <void *>line
    parts[0].iov_len = strlen(line)
    parts[1].iov_base = <void *><const char *>b"\n"
    parts[1].iov_len = 1
    while writev(policy.keylog, parts, 2) < 0 and errno == EINTR:
        pass


cdef int accept_any(X509_STORE_CTX *store, void *argument) noexcept nogil:
    return 1


# ---- making one ----

cdef object failure():
    """The exception for the library's last error."""
    cdef unsigned long error = ERR_peek_last_error()
    cdef const char *reason = ERR_reason_error_string(error)
    ERR_clear_error()
    text = (<bytes>reason).decode().upper().replace(" ", "_") if reason != NULL else "unknown error"
    if text == "KEY_VALUES_MISMATCH":
        return MismatchError("private key does not match public key")
    return TlsError(text)


cdef int refuse_password(char *out, int size, int writing, void *asked) noexcept nogil:
    """A key that wants one cannot be used: the terminal is not asked."""
    (<int *>asked)[0] = 1
    return -1


cdef int use_certificates(SSL_CTX *made, bytes text) except -1:
    """The server's own certificate first, then those that lead to its CA."""
    cdef BIO *bio = BIO_new_mem_buf(<char *>text, <int>len(text))
    cdef X509 *certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)
    cdef bint good = certificate != NULL and SSL_CTX_use_certificate(made, certificate) == 1
    cdef unsigned long error
    X509_free(certificate)
    while good:
        certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)
        if certificate == NULL:
            break
        if SSL_CTX_add0_chain_cert(made, certificate) != 1:
            X509_free(certificate)
            good = False
    BIO_free(bio)
    error = ERR_peek_error()
    if not good or ERR_GET_LIB(error) != ERR_LIB_PEM or ERR_GET_REASON(error) != PEM_R_NO_START_LINE:
        raise failure()
    ERR_clear_error()               # no further certificate: the end of the file
    return 0


cdef int use_key(SSL_CTX *made, bytes text) except -1:
    cdef int asked = 0
    cdef BIO *bio = BIO_new_mem_buf(<char *>text, <int>len(text))
    cdef EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, &asked)
    cdef bint good = key != NULL and SSL_CTX_use_PrivateKey(made, key) == 1
    EVP_PKEY_free(key)
    BIO_free(bio)
    if asked:
        ERR_clear_error()
        raise TlsError("the key is encrypted")
    if not good:
        raise failure()
    if SSL_CTX_check_private_key(made) != 1:    # the library keeps one of each type
        ERR_clear_error()
        raise MismatchError("private key type does not match public key type")
    return 0


cdef int trust(SSL_CTX *made, bytes text, bint named) except -1:
    """Certificates of CAs, as many as can be read; ``named``: handshakes tell clients which they are."""
    cdef BIO *bio = BIO_new_mem_buf(<char *>text, <int>len(text))
    cdef X509_STORE *store = SSL_CTX_get_cert_store(made)
    cdef X509 *certificate
    cdef int count = 0
    while True:
        ERR_clear_error()
        certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)
        if certificate == NULL:
            if ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_PEM and ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE:
                break
            continue
        if X509_STORE_add_cert(store, certificate) == 1:
            count += 1
            if named:
                SSL_CTX_add_client_CA(made, certificate)
        X509_free(certificate)
    BIO_free(bio)
    ERR_clear_error()
    if not count:
        raise AuthorityError("no certificate of a CA")
    return 0


cdef int trust_system(SSL_CTX *made) except -1:
    """Without any store nobody is trusted."""
    file, folder = system_store()
    if file:
        SSL_CTX_load_verify_file(made, os.fsencode(file))
    if folder:
        SSL_CTX_load_verify_dir(made, os.fsencode(folder))
    ERR_clear_error()
    return 0


cdef SSL_CTX *new_context(const SSL_METHOD *method) except NULL:
    cdef SSL_CTX *made = SSL_CTX_new(method)
    if made == NULL:
        ERR_clear_error()
        raise MemoryError
    if SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) != 1 or SSL_CTX_set_ciphersuites(made, SUITES) != 1 or (
            SSL_CTX_set_cipher_list(made, CIPHERS) != 1):
        SSL_CTX_free(made)
        raise failure()
    # A client without AES in its processor puts ChaCha20 first, and gets it.
    SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA)
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN)
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF)
    if SSL_CTX_set1_groups_list(made, GROUPS) != 1:
        SSL_CTX_set1_groups_list(made, GROUPS_BEFORE)
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(made), X509_V_FLAG_PARTIAL_CHAIN)     # as in Go, what is in the file is trusted, root or not
    ERR_clear_error()
    return made


cdef Policy *set_policy(SSL_CTX *made, bytes protocols, bint strict, str keylog) except NULL:
    cdef Policy *policy = <Policy *>malloc(sizeof(Policy) + len(protocols))
    if policy == NULL:
        raise MemoryError
    policy.keylog = -1
    policy.strict = strict
    policy.length = <uint32_t>len(protocols)
    memcpy(policy.protocols, <char *>protocols, len(protocols))
    if SSL_CTX_set_ex_data(made, policy_index, policy) != 1:
        free(policy)
        raise MemoryError
    if keylog:
        policy.keylog = os.open(keylog, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        SSL_CTX_set_keylog_callback(made, log_secret)
    return policy


def _read(path):
    with open(path, "rb") as file:
        return file.read()


cdef class Context:
    """See tls/context.pyi."""

    def __dealloc__(self):
        if self.native != NULL:
            context_release(self.native)

    cdef int _begin(self, str certificate, str key, str authority, alpn) except -1:
        self.certificate = certificate
        self.key = key
        self.authority = authority
        self.alpn = tuple(alpn)
        self._protocols = b"".join(bytes([len(name)]) + name.encode() for name in self.alpn)
        self.states = states_of(self.files)
        self.renew()
        return 0

    @property
    def files(self) -> list:
        return [path for path in (self.certificate, self.key, self.authority) if path]

    def renew(self) -> None:
        self._replace(self._build())

    cdef SSL_CTX *_build(self) except NULL:
        raise TypeError("a context is a server's or a client's")

    cdef int _replace(self, SSL_CTX *made) except -1:
        cdef SSL_CTX *former
        if self.native == NULL:
            self.native = <TlsContext *>calloc(1, sizeof(TlsContext))
            if self.native == NULL:
                SSL_CTX_free(made)
                raise MemoryError
            self.native.references = 1
        with nogil:
            lock(self.native)
            former = self.native.current
            self.native.current = made
            spin_free(&self.native.lock)
            SSL_CTX_free(former)
        return 0


cdef class ServerContext(Context):
    """See tls/context.pyi."""

    def __init__(self, str certificate, str key, str authority="", str client_auth="nocert", alpn=(), bint strict=True, str keylog="", bint awaited=False):
        _VERIFY[client_auth]
        self.client_auth = client_auth
        self.strict = strict
        self.keylog = keylog
        try:
            self._begin(certificate, key, authority, alpn)
        except (OSError, TlsError):
            if not awaited:
                raise
            self._replace(server_context(self, None, None))

    cdef SSL_CTX *_build(self) except NULL:
        return server_context(self, _read(self.certificate), _read(self.key))

    @property
    def validity(self):
        cdef SSL_CTX *current
        cdef const X509 *certificate
        lock(self.native)
        current = self.native.current
        SSL_CTX_up_ref(current)
        spin_free(&self.native.lock)
        try:
            certificate = SSL_CTX_get0_certificate(current)
            return None if certificate == NULL else (seconds_of(X509_get0_notBefore(certificate)), seconds_of(X509_get0_notAfter(certificate)))
        finally:
            SSL_CTX_free(current)


cdef int64_t seconds_of(const ASN1_TIME *moment) except? -1:
    """Since 1970."""
    cdef tm parts
    if ASN1_TIME_to_tm(moment, &parts) != 1:
        raise failure()
    return timegm(&parts)


cdef SSL_CTX *server_context(ServerContext self, bytes certificates, bytes key) except NULL:
    """None for the certificates: the library has nothing to show, and every handshake fails."""
    authority = _read(self.authority) if self.authority else b""
    # Tickets are good for whoever asks clients for the same: what a certificate was good for here must not open another door.
    asked = hash_of("sha256", b"%s %s" % (self.client_auth.encode(), authority))
    cdef SSL_CTX *made = new_context(TLS_server_method())
    cdef Policy *policy
    try:
        if certificates is not None:
            use_certificates(made, certificates)
            use_key(made, key)
        if authority:
            trust(made, authority, self.client_auth != "nocert")
        elif self.client_auth in ("verify_if_given", "require_and_verify"):
            trust_system(made)
        SSL_CTX_set_verify(made, <int>_VERIFY[self.client_auth], NULL)
        if self.client_auth in ("request", "require"):
            SSL_CTX_set_cert_verify_callback(made, accept_any, NULL)
        SSL_CTX_set_session_id_context(made, <bytes>asked, <unsigned int>len(asked))
        SSL_CTX_set_max_early_data(made, 0)
        if tickets_use(made) < 0:
            raise failure()
        policy = set_policy(made, self._protocols, self.strict, self.keylog)
        if policy.length:
            SSL_CTX_set_alpn_select_cb(made, choose_protocol, policy)
    except BaseException:
        SSL_CTX_free(made)
        raise
    return made


cdef class ClientContext(Context):
    """See tls/context.pyi."""

    def __init__(self, str certificate="", str key="", str authority="", alpn=(), bint verify=True, bint only13=False):
        self.verify = verify
        self.only13 = only13
        self._begin(certificate, key, authority, alpn)

    cdef SSL_CTX *_build(self) except NULL:
        certificates, key = (_read(self.certificate), _read(self.key)) if self.certificate else (b"", b"")
        authority = _read(self.authority) if self.authority else b""
        cdef SSL_CTX *made = new_context(TLS_client_method())
        try:
            if self.only13 and SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1:
                raise failure()
            if certificates:
                use_certificates(made, certificates)
                use_key(made, key)
            if authority:
                trust(made, authority, False)
            elif self.verify:
                trust_system(made)
            SSL_CTX_set_verify(made, SSL_VERIFY_PEER if self.verify else SSL_VERIFY_NONE, NULL)
            if self._protocols and SSL_CTX_set_alpn_protos(made, <bytes>self._protocols, <unsigned int>len(self._protocols)) != 0:
                raise failure()
        except BaseException:
            SSL_CTX_free(made)
            raise
        return made


def library_version() -> str:
    return (<bytes>OpenSSL_version(OPENSSL_VERSION)).decode()
