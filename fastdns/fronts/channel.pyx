"""Connections of DNS over TLS (RFC 7858, RFC 7766). The contract is in fronts/channel.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove
from cpython.bytes cimport PyBytes_FromStringAndSize
from fastdns.fronts.queries cimport (BROKEN, LAST_PART, PART, REFUSAL_SIZE, REJECTED, REPLIED, TRANSFER, UNSERVED, Recipient, Request,
                                     address_from_pair, request_cancel, request_crowded, request_free, request_continue, request_refuse)
from fastdns._wire cimport HEADER_SIZE, load16, store16

cdef enum:
    INPUT_KEPT = 2048               # octets of a buffer that stays for the next message
    OUTPUT_KEPT = 4096


cdef class Channel(Recipient):
    """The protocol of one connection, as asyncio calls it; see fronts/channel.pyi."""

    def __init__(self, front):
        self.front = front
        self.gate = front.gate
        self.since = front.loop.time()
        self.limit = front.settings.read_timeout       # for the handshake and the first message; later ones have the idle timeout

    def __dealloc__(self):
        free(self.input)
        free(self.output)

    # ---- what asyncio calls ----

    def connection_made(self, transport):
        self.transport = transport
        address_from_pair(&self.client, transport.get_extra_info("peername"))
        address_from_pair(&self.local, transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(OUTPUT_PAUSE)
        self.front.connections.add(self)
        self.arm()

    def data_received(self, bytes data not None):
        cdef const uint8_t *octets = data
        cdef uint32_t length = <uint32_t>len(data), used = 0
        if self.closing or self.last:
            return
        if self.input_used == 0:
            self.ask(octets, &used, length)
            octets += used
            length -= used
        if length:
            self.reserve_input(length)
            memcpy(self.input + self.input_used, octets, length)
            self.input_used += length
            self.parse()
        self.proceed()

    def eof_received(self):
        self.eof = True
        self.proceed()
        return self.transport.get_extra_info("ssl_object") is None     # what was asked is answered first

    def connection_lost(self, error):
        self.lost = True
        if self.timer is not None:
            self.timer.cancel()
        if self.transfer != NULL:
            request_cancel(self.transfer)
            self.transfer = NULL
        self.timer = self.transport = None
        self.front.forget(self)

    def pause_writing(self):
        self.blocked = True
        self.since = self.front.loop.time()
        self.arm()
        self.proceed()

    def resume_writing(self):
        self.blocked = False
        self.since = self.front.loop.time()
        self.arm()
        self.proceed()

    def finish(self):
        self.last = True
        self.proceed()

    # ---- queries ----

    cdef bint may_read(self):
        return (self.outstanding < OUTSTANDING_MAX and not self.blocked and self.current == NULL and not self.last and not self.closing
                and not self.lost)

    cdef int reserve_input(self, uint32_t more) except -1:
        cdef uint8_t *bigger
        if self.input_used + more > self.input_size:
            bigger = <uint8_t *>realloc(self.input, max(self.input_used + more, <uint32_t>INPUT_KEPT))
            if bigger == NULL:
                raise MemoryError
            self.input = bigger
            self.input_size = max(self.input_used + more, <uint32_t>INPUT_KEPT)
        return 0

    cdef int parse(self) except -1:
        """Posts the messages of the input that may be posted now."""
        cdef uint32_t used = 0
        self.ask(self.input, &used, self.input_used)
        if used == 0:
            return 0
        self.input_used -= used
        memmove(self.input, self.input + used, self.input_used)
        if self.input_used == 0 and self.input_size > INPUT_KEPT:
            free(self.input)
            self.input = NULL
            self.input_size = 0
        return 0

    cdef int ask(self, const uint8_t *octets, uint32_t *used, uint32_t length) except -1:
        """Posts all whole messages among the octets that may be asked now, together."""
        cdef Request *first = NULL
        cdef Request *newest = NULL
        cdef Request *request
        cdef uint32_t size, most = self.front.settings.max_queries
        cdef uint8_t refusal[2 + REFUSAL_SIZE]
        cdef const uint8_t *packet
        while self.may_read() and length - used[0] >= 2:
            size = load16(octets + used[0])
            if length - used[0] - 2 < size:
                break
            packet = octets + used[0] + 2
            used[0] += 2 + size
            self.queries += 1
            if most and self.queries >= most:
                self.last = True
            if size < HEADER_SIZE:
                continue
            if request_crowded():
                size = request_refuse(packet, size, refusal)
                self.append(refusal, size)
                continue
            request = self.gate.make(packet, size, &self.client, &self.local, self, True)
            self.outstanding += 1
            if first == NULL:
                first = request
            else:
                newest.next = request
            newest = request
        if used[0]:
            self.since = self.front.loop.time()
            self.limit = self.front.settings.idle_timeout
        if first != NULL:
            self.gate.post(first)
        return 0

    # ---- replies ----

    cdef int take(self, Request *request) except -1:
        cdef bint mine = request == self.current
        if request.result == TRANSFER:
            self.outstanding -= 1
            if self.lost or self.closing or self.current != NULL:       # one at a time
                request_cancel(request)
            else:
                self.current = self.transfer = request
            return 0
        if request.result == PART and not self.lost:
            self.transport.write(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length))
            self.transfer = request
            return 0
        if request.result == PART:
            request_cancel(request)
            return 0
        if not self.lost:
            if request.result == REPLIED or request.result == REJECTED:
                self.append(request.reply, request.reply_length)
            elif request.result == UNSERVED:
                self.last = True
            elif request.result == LAST_PART:
                self.transport.write(PyBytes_FromStringAndSize(<char *>request.reply, request.reply_length))
            elif request.result == BROKEN and mine:
                self.closing = True
                self.transport.abort()
        if mine:
            self.current = NULL
        elif request.result != BROKEN:
            self.outstanding -= 1
        request_free(request)
        return 0

    cdef int append(self, const uint8_t *octets, uint32_t length) except -1:
        """A reply goes into this round's output."""
        cdef uint32_t wanted = self.output_used + 2 + length
        cdef uint8_t *bigger
        if wanted > self.output_size:
            wanted = max(wanted + wanted // 2, <uint32_t>OUTPUT_KEPT)
            bigger = <uint8_t *>realloc(self.output, wanted)
            if bigger == NULL:
                raise MemoryError
            self.output = bigger
            self.output_size = wanted
        store16(self.output + self.output_used, length)
        memcpy(self.output + self.output_used + 2, octets, length)
        self.output_used += 2 + length
        return 0

    cdef int end_round(self) except -1:
        self.since = self.front.loop.time()
        self.proceed()
        return 0

    cdef int write_out(self) except -1:
        cdef uint32_t used = self.output_used
        self.output_used = 0
        if used and not self.lost and not self.closing:
            self.transport.write(PyBytes_FromStringAndSize(<char *>self.output, used))
        if self.output_size > OUTPUT_KEPT:
            free(self.output)
            self.output = NULL
            self.output_size = 0
        return 0

    cdef int proceed(self) except -1:
        """Writes what there is, posts what had to wait, closes a finished connection, and pauses or resumes reading."""
        cdef Request *request = self.transfer
        cdef bint wanted
        if self.output_used:
            self.write_out()
        if self.lost or self.closing:
            return 0
        if request != NULL and not self.blocked and self.outstanding == 0:
            self.transfer = NULL
            request_continue(request)
        if self.input_used >= 2 and self.may_read():
            self.parse()
            if self.output_used:
                self.write_out()
        if (self.eof or self.last) and self.outstanding == 0 and self.current == NULL and not (self.blocked and self.input_used):
            self.close()
            return 0
        wanted = self.may_read()
        if wanted == self.paused:
            self.paused = not wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()
        return 0

    # ---- time ----

    cdef int close(self) except -1:
        """What was written goes out first, but not for ever."""
        self.closing = True
        self.since = self.front.loop.time()
        self.transport.close()
        if not self.lost:
            self.arm()
        return 0

    cdef int arm(self) except -1:
        """Has `on_time` called when the time is up, if nothing happens before."""
        cdef double limit = self.front.settings.write_timeout if self.blocked or self.closing else self.limit
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.front.loop.call_later(max(0.0, self.since + limit - self.front.loop.time()), self.on_time)
        return 0

    def on_time(self):
        """The connection may have been used since: it ends only if it has been idle, or stuck, for the whole time."""
        cdef double idle = self.front.loop.time() - self.since
        if self.lost:
            return
        if self.blocked or self.closing:
            if idle >= self.front.settings.write_timeout - 0.001:
                self.transport.abort()
                return
        elif self.outstanding or self.current != NULL:
            self.since = self.front.loop.time()
        elif idle >= self.limit - 0.001:
            self.close()
            return
        self.arm()
