"""Keys of session tickets. The contract is in tls/tickets.pxd."""
from libc.stdint cimport uint8_t, int64_t
from libc.string cimport memcmp, memcpy, memmove
from fastdns.system.socket cimport socket_clock
from fastdns.tls.openssl cimport (OPENSSL_cleanse, OSSL_MAC_PARAM_DIGEST, OSSL_MAC_PARAM_KEY, OSSL_PARAM, RAND_bytes, SSL_SESSION,
                                  SSL_TICKET_RETURN, SSL_TICKET_RETURN_IGNORE_RENEW, SSL_TICKET_RETURN_USE, SSL_TICKET_RETURN_USE_RENEW,
                                  SSL_TICKET_STATUS, SSL_TICKET_SUCCESS, SSL_TICKET_SUCCESS_RENEW, TLS1_2_VERSION, X509, EVP_DecryptInit_ex,
                                  EVP_EncryptInit_ex, EVP_MAC_CTX_set_params, EVP_aes_256_cbc, OSSL_PARAM_construct_end,
                                  OSSL_PARAM_construct_octet_string, OSSL_PARAM_construct_utf8_string, SSL_CTX_set_num_tickets,
                                  SSL_CTX_set_session_ticket_cb, SSL_CTX_set_timeout, SSL_CTX_set_tlsext_ticket_key_evp_cb,
                                  SSL_SESSION_get0_peer, SSL_version, X509_cmp_current_time, X509_get0_notAfter)

cdef extern from *:
    """
    #include <pthread.h>
    static pthread_mutex_t ticket_mutex = PTHREAD_MUTEX_INITIALIZER;
    #define ticket_lock() pthread_mutex_lock(&ticket_mutex)
    #define ticket_unlock() pthread_mutex_unlock(&ticket_mutex)
    """
    void ticket_lock() noexcept nogil
    void ticket_unlock() noexcept nogil

cdef enum:
    NAME_SIZE = 16
    SECRET_SIZE = 32
    IV_SIZE = 16
    KEYS = 3                        # the newest makes tickets; a ticket outlives its key's turn by TICKET_SECONDS at most

cdef struct TicketKey:
    uint8_t name[NAME_SIZE]
    uint8_t cipher[SECRET_SIZE]     # of AES-256-CBC
    uint8_t mac[SECRET_SIZE]        # of HMAC with SHA-256
    int64_t made                    # ns, monotonic; 0: none

cdef TicketKey keys[KEYS]           # the newest first; under the lock
cdef int64_t ROTATION = <int64_t>TICKET_SECONDS // 2 * 1000000000


cdef bint newest_key(TicketKey *key) noexcept nogil:
    """The one that makes tickets, which is replaced in time. False without random numbers."""
    cdef int64_t now = socket_clock()
    cdef bint good = True
    ticket_lock()
    if keys[0].made == 0 or now - keys[0].made > ROTATION:
        good = RAND_bytes(<uint8_t *>key, NAME_SIZE + 2 * SECRET_SIZE) == 1
        if good:
            key.made = now
            memmove(&keys[1], &keys[0], (KEYS - 1) * sizeof(TicketKey))
            keys[0] = key[0]
    else:
        key[0] = keys[0]
    ticket_unlock()
    return good


cdef int find_key(TicketKey *key, const uint8_t *name) noexcept nogil:
    """Its place, or -1."""
    cdef int i, found = -1
    ticket_lock()
    for i in range(KEYS):
        if keys[i].made and memcmp(keys[i].name, name, NAME_SIZE) == 0:
            key[0] = keys[i]
            found = i
            break
    ticket_unlock()
    return found


cdef bint set_mac(EVP_MAC_CTX *mac, TicketKey *key) noexcept nogil:
    cdef OSSL_PARAM parameters[3]
    parameters[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, SECRET_SIZE)
    parameters[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, <char *>b"SHA256", 0)
    parameters[2] = OSSL_PARAM_construct_end()
    return EVP_MAC_CTX_set_params(mac, parameters) == 1


cdef int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int making) noexcept nogil:
    """OpenSSL's: 1 the key is set, 2 likewise and the client gets a new ticket, 0 no such key, -1 an error."""
    cdef TicketKey key
    cdef int place = 0, status = -1
    if making:
        if newest_key(&key) and RAND_bytes(iv, IV_SIZE) == 1:
            memcpy(name, key.name, NAME_SIZE)
            if EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1 and set_mac(mac, &key):
                status = 1
    else:
        place = find_key(&key, name)
        if place < 0:
            return 0
        if EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1 and set_mac(mac, &key):
            status = 2 if place else 1
    OPENSSL_cleanse(&key, sizeof(key))
    return status


cdef SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t length, SSL_TICKET_STATUS status,
                                    void *argument) noexcept nogil:
    """A client's certificate is not looked at again when it resumes: its ticket ends with it. With TLS 1.3 a ticket is used once (RFC 8446 C.4)."""
    cdef X509 *peer
    if status != SSL_TICKET_SUCCESS and status != SSL_TICKET_SUCCESS_RENEW:
        return SSL_TICKET_RETURN_IGNORE_RENEW
    peer = SSL_SESSION_get0_peer(session)
    if peer != NULL and X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0:
        return SSL_TICKET_RETURN_IGNORE_RENEW
    return SSL_TICKET_RETURN_USE_RENEW if status == SSL_TICKET_SUCCESS_RENEW or SSL_version(ssl) > TLS1_2_VERSION else SSL_TICKET_RETURN_USE


cdef int tickets_use(SSL_CTX *context) noexcept nogil:
    SSL_CTX_set_timeout(context, TICKET_SECONDS)
    SSL_CTX_set_num_tickets(context, 1)
    if SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket) != 1 or SSL_CTX_set_session_ticket_cb(context, NULL, judge_ticket, NULL) != 1:
        return -1
    return 0


# ---- the process that takes over ----

def handed() -> bytes:
    """The keys; see tls/tickets.pyi."""
    cdef TicketKey copy[KEYS]
    newest_key(&copy[0])            # so that tickets made from now on are good there, too
    ticket_lock()
    memcpy(copy, keys, sizeof(copy))
    ticket_unlock()
    octets = (<char *>copy)[:sizeof(copy)] if copy[0].made else b""
    OPENSSL_cleanse(copy, sizeof(copy))
    return octets


def adopt(bytes octets not None) -> None:
    """Takes keys; see tls/tickets.pyi."""
    if not octets:
        return
    if len(octets) != sizeof(keys):
        raise ValueError("keys of tickets: %d octets" % len(octets))
    ticket_lock()
    memcpy(keys, <char *>octets, sizeof(keys))
    ticket_unlock()
