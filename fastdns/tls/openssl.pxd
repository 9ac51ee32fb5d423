"""The functions of libssl and libcrypto that this package calls, declared once."""
from libc.stdint cimport uint8_t
from libc.time cimport tm

cdef extern from "<openssl/ssl.h>" nogil:
    ctypedef struct SSL:
        pass
    ctypedef struct SSL_CTX:
        pass
    ctypedef struct SSL_METHOD:
        pass
    ctypedef struct SSL_SESSION:
        pass
    ctypedef struct BIO:
        pass
    ctypedef struct BIO_METHOD:
        pass
    ctypedef struct X509:
        pass
    ctypedef struct X509_STORE:
        pass
    ctypedef struct X509_STORE_CTX:
        pass
    ctypedef struct X509_VERIFY_PARAM:
        pass
    ctypedef struct ASN1_TIME:
        pass
    ctypedef struct EVP_PKEY:
        pass
    ctypedef struct EVP_CIPHER:
        pass
    ctypedef struct EVP_CIPHER_CTX:
        pass
    ctypedef struct EVP_MAC_CTX:
        pass
    ctypedef struct OSSL_PARAM:
        pass
    ctypedef struct CRYPTO_EX_DATA:
        pass
    ctypedef int SSL_TICKET_STATUS
    ctypedef int SSL_TICKET_RETURN

    # ---- contexts ----
    enum:
        TLS1_2_VERSION
        TLS1_3_VERSION
        SSL_OP_NO_RENEGOTIATION
        SSL_OP_NO_COMPRESSION
        SSL_OP_CIPHER_SERVER_PREFERENCE
        SSL_OP_PRIORITIZE_CHACHA
        SSL_MODE_ENABLE_PARTIAL_WRITE
        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
        SSL_MODE_RELEASE_BUFFERS
        SSL_MODE_NO_AUTO_CHAIN
        SSL_SESS_CACHE_OFF
        SSL_VERIFY_NONE
        SSL_VERIFY_PEER
        SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        SSL_TLSEXT_ERR_OK
        SSL_TLSEXT_ERR_NOACK
        SSL_TLSEXT_ERR_ALERT_FATAL
        OPENSSL_NPN_NEGOTIATED
        SSL_TICKET_SUCCESS
        SSL_TICKET_SUCCESS_RENEW
        SSL_TICKET_EMPTY
        SSL_TICKET_NO_DECRYPT
        SSL_TICKET_RETURN_IGNORE
        SSL_TICKET_RETURN_IGNORE_RENEW
        SSL_TICKET_RETURN_USE
        SSL_TICKET_RETURN_USE_RENEW
        X509_V_FLAG_PARTIAL_CHAIN
    const SSL_METHOD *TLS_server_method()
    const SSL_METHOD *TLS_client_method()
    SSL_CTX *SSL_CTX_new(const SSL_METHOD *method)
    void SSL_CTX_free(SSL_CTX *context)
    int SSL_CTX_up_ref(SSL_CTX *context)
    int SSL_CTX_set_min_proto_version(SSL_CTX *context, int version)
    unsigned long SSL_CTX_set_options(SSL_CTX *context, unsigned long options)
    long SSL_CTX_set_mode(SSL_CTX *context, long mode)
    long SSL_CTX_set_session_cache_mode(SSL_CTX *context, long mode)
    long SSL_CTX_set_timeout(SSL_CTX *context, long seconds)
    int SSL_CTX_set_num_tickets(SSL_CTX *context, size_t count)
    int SSL_CTX_set_max_early_data(SSL_CTX *context, unsigned int octets)
    int SSL_CTX_set_ciphersuites(SSL_CTX *context, const char *suites)
    int SSL_CTX_set_cipher_list(SSL_CTX *context, const char *ciphers)
    int SSL_CTX_set1_groups_list(SSL_CTX *context, const char *groups)
    int SSL_CTX_use_certificate(SSL_CTX *context, X509 *certificate)
    int SSL_CTX_add0_chain_cert(SSL_CTX *context, X509 *certificate)
    int SSL_CTX_use_PrivateKey(SSL_CTX *context, EVP_PKEY *key)
    int SSL_CTX_check_private_key(const SSL_CTX *context)
    int SSL_CTX_add_client_CA(SSL_CTX *context, X509 *certificate)
    X509_STORE *SSL_CTX_get_cert_store(const SSL_CTX *context)
    X509_VERIFY_PARAM *SSL_CTX_get0_param(SSL_CTX *context)
    X509 *SSL_CTX_get0_certificate(const SSL_CTX *context)
    int SSL_CTX_load_verify_file(SSL_CTX *context, const char *path)
    int SSL_CTX_load_verify_dir(SSL_CTX *context, const char *path)
    void SSL_CTX_set_verify(SSL_CTX *context, int mode, int (*check)(int, X509_STORE_CTX *) noexcept nogil)
    void SSL_CTX_set_cert_verify_callback(SSL_CTX *context, int (*verify)(X509_STORE_CTX *, void *) noexcept nogil, void *argument)
    int SSL_CTX_set_session_id_context(SSL_CTX *context, const unsigned char *octets, unsigned int length)
    int SSL_CTX_set_alpn_protos(SSL_CTX *context, const unsigned char *protocols, unsigned int length)
    void SSL_CTX_set_alpn_select_cb(SSL_CTX *context, int (*choose)(SSL *, const unsigned char **, unsigned char *, const unsigned char *,
                                                                    unsigned int, void *) noexcept nogil, void *argument)
    int SSL_select_next_proto(unsigned char **out, unsigned char *length, const unsigned char *ours, unsigned int ours_length,
                              const unsigned char *theirs, unsigned int theirs_length)
    void SSL_CTX_set_keylog_callback(SSL_CTX *context, void (*log)(const SSL *, const char *) noexcept nogil)
    int SSL_CTX_get_ex_new_index(long number, void *pointer, void *make, void *copy,
                                 void (*release)(void *, void *, CRYPTO_EX_DATA *, int, long, void *) noexcept nogil)
    int SSL_CTX_set_ex_data(SSL_CTX *context, int index, void *data)
    void *SSL_CTX_get_ex_data(const SSL_CTX *context, int index)

    # ---- tickets ----
    int SSL_CTX_set_tlsext_ticket_key_evp_cb(SSL_CTX *context, int (*keys)(SSL *, unsigned char *, unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *,
                                                                           int) noexcept nogil)
    int SSL_CTX_set_session_ticket_cb(SSL_CTX *context, int (*make)(SSL *, void *) noexcept nogil,
                                      SSL_TICKET_RETURN (*judge)(SSL *, SSL_SESSION *, const unsigned char *, size_t, SSL_TICKET_STATUS,
                                                                 void *) noexcept nogil, void *argument)
    X509 *SSL_SESSION_get0_peer(SSL_SESSION *session)
    const ASN1_TIME *X509_get0_notBefore(const X509 *certificate)
    const ASN1_TIME *X509_get0_notAfter(const X509 *certificate)
    int ASN1_TIME_to_tm(const ASN1_TIME *when, tm *parts)
    int X509_cmp_current_time(const ASN1_TIME *when)
    const EVP_CIPHER *EVP_aes_256_cbc()
    int EVP_EncryptInit_ex(EVP_CIPHER_CTX *context, const EVP_CIPHER *cipher, void *engine, const unsigned char *key, const unsigned char *iv)
    int EVP_DecryptInit_ex(EVP_CIPHER_CTX *context, const EVP_CIPHER *cipher, void *engine, const unsigned char *key, const unsigned char *iv)
    int EVP_MAC_CTX_set_params(EVP_MAC_CTX *context, const OSSL_PARAM *parameters)
    OSSL_PARAM OSSL_PARAM_construct_octet_string(const char *key, void *octets, size_t length)
    OSSL_PARAM OSSL_PARAM_construct_utf8_string(const char *key, char *text, size_t size)
    OSSL_PARAM OSSL_PARAM_construct_end()

    # ---- connections ----
    enum:
        SSL_ERROR_NONE
        SSL_ERROR_SSL
        SSL_ERROR_SYSCALL
        SSL_ERROR_WANT_READ
        SSL_ERROR_WANT_WRITE
        SSL_ERROR_ZERO_RETURN
        SSL3_RT_HEADER
        SSL3_RT_HEADER_LENGTH
        SSL3_RT_HANDSHAKE
        SSL3_MT_KEY_UPDATE
        BIO_CTRL_FLUSH
        BIO_TYPE_SOURCE_SINK
        TLS_ST_SW_SESSION_TICKET
    SSL *SSL_new(SSL_CTX *context)
    void SSL_free(SSL *ssl)
    SSL_CTX *SSL_get_SSL_CTX(const SSL *ssl)
    void SSL_set_accept_state(SSL *ssl)
    void SSL_set_connect_state(SSL *ssl)
    int SSL_set_tlsext_host_name(SSL *ssl, const char *name)
    int SSL_set1_host(SSL *ssl, const char *name)
    void SSL_set_hostflags(SSL *ssl, unsigned int flags)
    X509_VERIFY_PARAM *SSL_get0_param(SSL *ssl)
    int X509_VERIFY_PARAM_set1_ip_asc(X509_VERIFY_PARAM *parameters, const char *address)
    int X509_VERIFY_PARAM_set_flags(X509_VERIFY_PARAM *parameters, unsigned long flags)
    int SSL_do_handshake(SSL *ssl)
    int SSL_read(SSL *ssl, void *octets, int size)
    int SSL_write(SSL *ssl, const void *octets, int size)
    int SSL_pending(const SSL *ssl)
    int SSL_shutdown(SSL *ssl)
    int SSL_get_error(const SSL *ssl, int status)
    int SSL_version(const SSL *ssl)
    int SSL_get_state(const SSL *ssl)
    void SSL_get0_alpn_selected(const SSL *ssl, const unsigned char **protocol, unsigned int *length)
    void SSL_set_bio(SSL *ssl, BIO *read, BIO *write)
    void SSL_set_msg_callback(SSL *ssl, void (*seen)(int, int, int, const void *, size_t, SSL *, void *) noexcept nogil)
    void SSL_set_msg_callback_arg(SSL *ssl, void *argument)

    # ---- sessions of clients ----
    enum:
        X509_V_OK
        X509_V_ERR_HOSTNAME_MISMATCH
        X509_V_ERR_IP_ADDRESS_MISMATCH
    int SSL_set_session(SSL *ssl, SSL_SESSION *session)
    SSL_SESSION *SSL_get1_session(SSL *ssl)
    int SSL_session_reused(const SSL *ssl)
    int SSL_SESSION_is_resumable(const SSL_SESSION *session)
    int SSL_SESSION_get_protocol_version(const SSL_SESSION *session)
    void SSL_SESSION_free(SSL_SESSION *session)
    long SSL_get_verify_result(const SSL *ssl)
    const char *X509_verify_cert_error_string(long result)

    # ---- BIO ----
    BIO_METHOD *BIO_meth_new(int type, const char *name)
    int BIO_meth_set_read(BIO_METHOD *method, int (*read)(BIO *, char *, int) noexcept nogil)
    int BIO_meth_set_write(BIO_METHOD *method, int (*write)(BIO *, const char *, int) noexcept nogil)
    int BIO_meth_set_ctrl(BIO_METHOD *method, long (*control)(BIO *, int, long, void *) noexcept nogil)
    int BIO_get_new_index()
    BIO *BIO_new(const BIO_METHOD *method)
    BIO *BIO_new_mem_buf(const void *octets, int size)
    int BIO_free(BIO *bio)
    void BIO_set_data(BIO *bio, void *data)
    void *BIO_get_data(BIO *bio)
    void BIO_set_init(BIO *bio, int init)
    void BIO_clear_retry_flags(BIO *bio)
    void BIO_set_retry_read(BIO *bio)
    void BIO_set_retry_write(BIO *bio)

cdef extern from "<openssl/pem.h>" nogil:
    enum: PEM_R_NO_START_LINE
    enum: ERR_LIB_PEM
    X509 *PEM_read_bio_X509_AUX(BIO *bio, X509 **out, int (*password)(char *, int, int, void *) noexcept nogil, void *argument)
    X509 *PEM_read_bio_X509(BIO *bio, X509 **out, int (*password)(char *, int, int, void *) noexcept nogil, void *argument)
    EVP_PKEY *PEM_read_bio_PrivateKey(BIO *bio, EVP_PKEY **out, int (*password)(char *, int, int, void *) noexcept nogil, void *argument)
    void X509_free(X509 *certificate)
    void EVP_PKEY_free(EVP_PKEY *key)
    int X509_STORE_add_cert(X509_STORE *store, X509 *certificate)

cdef extern from "<openssl/core_names.h>" nogil:
    const char *OSSL_MAC_PARAM_DIGEST
    const char *OSSL_MAC_PARAM_KEY

cdef extern from "<openssl/err.h>" nogil:
    unsigned long ERR_peek_last_error()
    unsigned long ERR_peek_error()
    void ERR_clear_error()
    const char *ERR_reason_error_string(unsigned long error)
    int ERR_GET_LIB(unsigned long error)
    int ERR_GET_REASON(unsigned long error)

cdef extern from "<openssl/crypto.h>" nogil:
    enum: OPENSSL_VERSION
    const char *OpenSSL_version(int kind)
    void OPENSSL_cleanse(void *octets, size_t length)

cdef extern from "<openssl/x509v3.h>" nogil:
    enum:
        X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS
        X509_CHECK_FLAG_NEVER_CHECK_SUBJECT

cdef extern from "<openssl/rand.h>" nogil:
    int RAND_bytes(unsigned char *octets, int length)
