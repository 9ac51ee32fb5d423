"""Tokens of Retry packets. The contract is in engine/quic/token.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.engine.quic.quiche cimport CONNECTION_ID_MAX, VERIFIER_SIZE, quiche
from fastdns.engine.quic.state cimport ID_LENGTH

cdef enum:
    LIFE = 10000000000                  # ns
    CODE_SIZE = 16                      # octets of the authentication code that a token has
    TIME_SIZE = 8

# Time, code, first destination.
cdef enum:
    OVERHEAD = 24


cdef void authenticate(const Address *client, const uint8_t *id, const uint8_t *time, const uint8_t *original, uint32_t original_length,
                       uint8_t *code) noexcept nogil:
    cdef uint8_t octets[64]
    cdef uint8_t verifier[VERIFIER_SIZE]
    memset(octets, 0, sizeof(octets))
    octets[0] = client.family
    octets[1] = <uint8_t>original_length
    memcpy(octets + 2, &client.port, 2)
    memcpy(octets + 4, client.octets, 4 if client.family == 4 else 16)
    memcpy(octets + 20, id, ID_LENGTH)
    memcpy(octets + 28, time, TIME_SIZE)
    memcpy(octets + 36, original, original_length)
    quiche.authenticate(octets, sizeof(octets), verifier)
    memcpy(code, verifier, CODE_SIZE)


cdef uint32_t token_write(uint8_t *token, const Address *client, const uint8_t *id, const uint8_t *original, uint32_t original_length,
                          int64_t now) noexcept nogil:
    memcpy(token, &now, TIME_SIZE)
    memcpy(token + OVERHEAD, original, original_length)
    authenticate(client, id, token, original, original_length, token + TIME_SIZE)
    return OVERHEAD + original_length


cdef uint32_t token_check(const uint8_t *token, uint32_t length, const Address *client, const uint8_t *id, uint32_t id_length, int64_t now,
                          uint8_t *original) noexcept nogil:
    cdef uint8_t code[CODE_SIZE]
    cdef uint32_t i, differs = 0
    cdef int64_t time
    if length <= OVERHEAD or length > OVERHEAD + CONNECTION_ID_MAX or id_length != ID_LENGTH:
        return 0
    memcpy(&time, token, TIME_SIZE)
    authenticate(client, id, token, token + OVERHEAD, length - OVERHEAD, code)
    for i in range(CODE_SIZE):
        differs |= code[i] ^ token[TIME_SIZE + i]
    if differs or now - time > LIFE or time > now:
        return 0
    memcpy(original, token + OVERHEAD, length - OVERHEAD)
    return length - OVERHEAD
