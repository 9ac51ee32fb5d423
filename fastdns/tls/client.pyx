"""Sessions of clients, and texts of failed handshakes. The contract is in tls/client.pxd."""
from libc.stdio cimport snprintf
from libc.string cimport memset
from fastdns.tls.openssl cimport (ERR_reason_error_string, SSL_CTX_free, SSL_CTX_up_ref, SSL_SESSION_free, SSL_SESSION_get_protocol_version,
                                  SSL_SESSION_is_resumable, SSL_get1_session, SSL_get_SSL_CTX, SSL_get_verify_result, SSL_session_reused,
                                  SSL_set_session, TLS1_2_VERSION, X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH, X509_V_OK,
                                  X509_verify_cert_error_string)
from fastdns.tls.context import ClientContext


cdef void session_offer(TlsSession *kept, TlsStream *tls) noexcept nogil:
    if kept.session == NULL:
        return
    if SSL_get_SSL_CTX(tls.ssl) != kept.context:
        session_forget(kept)
        return
    SSL_set_session(tls.ssl, kept.session)
    if SSL_SESSION_get_protocol_version(kept.session) > TLS1_2_VERSION:
        session_forget(kept)


cdef bint session_keep(TlsSession *kept, TlsStream *tls) noexcept nogil:
    cdef SSL_SESSION *session = SSL_get1_session(tls.ssl)
    if session == NULL or not SSL_SESSION_is_resumable(session):
        SSL_SESSION_free(session)
        return False
    session_forget(kept)
    kept.session = session
    kept.context = SSL_get_SSL_CTX(tls.ssl)
    SSL_CTX_up_ref(kept.context)
    return True


cdef void session_forget(TlsSession *kept) noexcept nogil:
    SSL_SESSION_free(kept.session)
    SSL_CTX_free(kept.context)
    memset(kept, 0, sizeof(TlsSession))


cdef bint session_resumed(const TlsStream *tls) noexcept nogil:
    return SSL_session_reused(tls.ssl) == 1


cdef void handshake_failure(const TlsStream *tls, const char *server_name, char *out, size_t size) noexcept nogil:
    cdef long result = SSL_get_verify_result(tls.ssl)
    cdef const char *reason
    if result == X509_V_ERR_HOSTNAME_MISMATCH or result == X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(out, size, b"tls: failed to verify certificate: %s, certificate is not valid for '%s'",
                 X509_verify_cert_error_string(result), server_name)
    elif result != X509_V_OK:
        snprintf(out, size, b"tls: failed to verify certificate: %s", X509_verify_cert_error_string(result))
    else:
        reason = ERR_reason_error_string(tls.error)
        if reason == NULL:
            snprintf(out, size, b"EOF")
        else:
            snprintf(out, size, b"tls: %s", reason)


def client_files(files) -> tuple:
    certificate, key = (files[0], files[1]) if len(files) >= 2 else ("", "")
    return certificate, key, files[len(files) - 1] if len(files) in (1, 3) else ""


def client_context(files, alpn=(), bint only13=False) -> ClientContext:
    return ClientContext(*client_files(files), alpn, only13=only13)
