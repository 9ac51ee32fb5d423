"""What is used of BoringSSL's headers for clients, and the types that the server's contexts have too. `library` alone may cimport it."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "<openssl/ssl.h>" nogil:
    ctypedef struct SSL:
        pass
    ctypedef struct SSL_CTX:
        pass
    ctypedef struct SSL_SESSION:
        pass
    ctypedef struct CRYPTO_EX_DATA:
        pass
    ctypedef struct X509_VERIFY_PARAM:
        pass
    enum:
        SSL_SESS_CACHE_CLIENT
        SSL_SESS_CACHE_NO_INTERNAL
        X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
        X509_V_ERR_HOSTNAME_MISMATCH
        X509_V_ERR_INVALID_CALL
        X509_V_ERR_IP_ADDRESS_MISMATCH
        X509_V_FLAG_PARTIAL_CHAIN
        X509_V_OK
    ctypedef void (*ex_free_func)(void *parent, void *data, CRYPTO_EX_DATA *others, int index, long number, void *pointer) noexcept nogil
    int SSL_CTX_set_alpn_protos(SSL_CTX *context, const uint8_t *protocols, size_t length)
    int SSL_CTX_set_session_cache_mode(SSL_CTX *context, int mode)
    void SSL_CTX_sess_set_new_cb(SSL_CTX *context, int (*callback)(SSL *ssl, SSL_SESSION *session) noexcept nogil)
    X509_VERIFY_PARAM *SSL_CTX_get0_param(SSL_CTX *context)
    int SSL_CTX_up_ref(SSL_CTX *context)
    X509_VERIFY_PARAM *SSL_get0_param(SSL *ssl)
    int SSL_get_ex_new_index(long number, void *pointer, void *unused, void *copy, ex_free_func release)
    int SSL_set_ex_data(SSL *ssl, int index, void *data)
    void *SSL_get_ex_data(const SSL *ssl, int index)
    int SSL_set_session(SSL *ssl, SSL_SESSION *session)
    void SSL_SESSION_free(SSL_SESSION *session)
    int SSL_set_tlsext_host_name(SSL *ssl, const char *name)
    void SSL_set_hostflags(SSL *ssl, unsigned int flags)
    int SSL_set1_host(SSL *ssl, const char *name)
    long SSL_get_verify_result(const SSL *ssl)
    int X509_VERIFY_PARAM_set_flags(X509_VERIFY_PARAM *param, unsigned long flags)
    int X509_VERIFY_PARAM_set1_ip_asc(X509_VERIFY_PARAM *param, const char *address)
    const char *X509_verify_cert_error_string(long result)
    const char *SSL_alert_desc_string_long(int alert)
