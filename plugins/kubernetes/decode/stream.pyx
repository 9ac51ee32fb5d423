"""From the octets of an HTTP body to calls of a sink: what a reflector feeds while it reads."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from fastdns.plugins.kubernetes.decode.body cimport (BODY_END, BODY_MALFORMED, BODY_RUN, TRANSFER_CHUNKED, TRANSFER_CLOSE, TRANSFER_LENGTH, Body,
                                                     body_begin, body_next)
from fastdns.plugins.kubernetes.decode.fields cimport DECODED, NO_MEMORY, Scratch, scratch_free, scratch_init, version_parse
from fastdns.plugins.kubernetes.decode.frames cimport (FRAMING_JSON_LIST, FRAMING_JSON_WATCH, FRAMING_PROTOBUF_LIST, FRAMING_PROTOBUF_WATCH,
                                                       FRAMING_RAW, STEP_META, STEP_MORE, STEP_NO_MEMORY, STEP_TOO_LARGE, Frames,
                                                       frames_add, frames_begin, frames_complete, frames_free, frames_init, frames_next)
from fastdns.plugins.kubernetes.decode.json cimport fill_object
from fastdns.plugins.kubernetes.decode.names cimport NAME_WORDS, name_bit, name_word, read_name
from fastdns.plugins.kubernetes.decode.objects cimport CUT_COUNT, KIND_COUNT, SOURCE_API, Kind, Object, Sink, Source, Span
from fastdns.plugins.kubernetes.decode.protobuf cimport (EVENT_BOOKMARK, EVENT_DELETED, EVENT_ERROR, Bookmark, Event, ListMeta, Status, skim_bookmark,
                                                         skim_event, skim_list_meta, skim_object, skim_status, unwrap)

from fastdns.plugins.kubernetes.decode.cuts import report_cuts
from fastdns.plugins.kubernetes.decode.outline import identify, identify_event, outline
from fastdns.plugins.kubernetes.decode.refusals import Refusals

cdef enum:
    VERSION_MAX = 63
    CONTINUE_MAX = 8192

# Labels of metrics, by the number of the kind.
KINDS = ("namespaces", "services", "endpointslices", "pods", "serviceimports", "importslices")
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"

cdef enum FeedResult:                  # of a run of octets
    GOES_ON = 0
    API_ERROR = 1                   # an ERROR event: `failed` holds its Status
    STEP_JSON = 2                   # `failed` holds a JSON frame, which wants the GIL
    BROKEN = -1
    MEMORY = -2
    LARGE = -3


class StreamError(ValueError):
    """The body is not what it says it is: truncated, malformed, too large or of an unknown content type."""


class ApiError(Exception):
    """An error that the API server reported, as the status of a reply or as an event of a watch.

    ``code`` is the HTTP status, ``reason`` and ``message`` are the server's texts, ``retry_after`` is in seconds (0: absent).
    """

    def __init__(self, code: int, reason: str = "", message: str = "", retry_after: float = 0) -> None:
        super().__init__(message or reason or f"the server answered with status {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


cdef str span_text(Span span):
    return PyUnicode_DecodeUTF8(span.data, span.length, "replace") if span.length else ""


cdef inline Span span_of(bytes octets):
    """Borrowed from the octets."""
    cdef Span span
    span.data = octets
    span.length = <unsigned int>len(octets)
    return span


cdef object status_error(const Status *status, int code):
    return ApiError(status.code or code, span_text(status.reason), span_text(status.message), status.retry_after)


def api_error(int code, str content_type, bytes body):
    """The ApiError of a reply with an error status; its body may be a Status in protobuf or JSON, or anything else."""
    cdef Span whole, raw
    cdef Status status
    cdef const char *data = body
    kind = content_type.partition(";")[0].strip().lower()
    text = body[:200].decode("utf-8", "replace").strip()
    plain = text if text.isprintable() else ""
    whole.data = data
    whole.length = <unsigned int>len(body)
    if kind == PROTOBUF and unwrap(whole, &raw) == 0 and skim_status(raw, &status) == 0:
        return status_error(&status, code)
    if kind == JSON:
        import msgspec

        from fastdns.plugins.kubernetes.decode import models

        try:
            model = msgspec.json.decode(body, type=models.Status)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return ApiError(code, "", plain)
        after = model.details.retry_after if model.details is not None else 0
        return ApiError(model.code or code, model.reason or "", model.message or "", after or 0)
    return ApiError(code, "", plain)


cdef class Stream:
    cdef Sink sink
    cdef Kind kind
    cdef bint pod_labels
    cdef Body body
    cdef Frames frames
    cdef Scratch scratch
    cdef Span failed                # see FeedResult; borrowed from frames
    cdef bint protobuf
    cdef bint initial               # the watch begins with a list (sendInitialEvents)
    cdef bint touched               # the sink was called since the last flush
    cdef char version_text[VERSION_MAX + 1]
    cdef uint8_t version_length
    cdef char following_text[CONTINUE_MAX]
    cdef unsigned int following_length
    cdef object decoder             # msgspec's for the kind
    cdef object event_decoder
    cdef list warnings
    cdef readonly object refusals   # Refusals
    cdef bint refusing              # `refusals` has names; then
    cdef uint64_t refused[NAME_WORDS]    # a bit for the hash of each: others need no GIL to be accepted
    cdef readonly bint listing
    cdef readonly bint ended
    cdef readonly unsigned long long objects
    cdef readonly unsigned long long events
    cdef readonly unsigned long long handed

    def __cinit__(self, Sink sink not None, int kind=0, bint pod_labels=False):
        if not 0 <= kind < KIND_COUNT:
            raise ValueError("no such kind")
        self.sink = sink
        self.kind = <Kind>kind
        self.pod_labels = pod_labels
        self.warnings = []
        self.refusals = Refusals(KINDS[kind])
        scratch_init(&self.scratch)
        frames_init(&self.frames)

    def __dealloc__(self):
        scratch_free(&self.scratch)
        frames_free(&self.frames)

    # ---- what a reflector asks ----

    @property
    def version(self):
        return self.version_text[:self.version_length].decode("ascii", "replace")

    @version.setter
    def version(self, str value):
        """A version that is too long is not kept."""
        cdef bytes octets = value.encode("utf-8", "replace")
        if len(octets) <= VERSION_MAX:
            self.version_length = <uint8_t>len(octets)
            memcpy(self.version_text, <const char *>octets, self.version_length)

    @property
    def following(self):
        return self.following_text[:self.following_length].decode("utf-8", "replace")

    def take_warnings(self):
        taken, self.warnings = self.warnings, []
        return taken

    def begin_list(self, int source=SOURCE_API):
        """Tells the sink that a full list begins; commit_list or the end of the initial events closes it."""
        self.listing = True
        self.following_length = 0
        self.refusals.clear()
        self.refusing = False
        memset(self.refused, 0, sizeof(self.refused))
        with nogil:
            self.sink.calls.begin(self.sink.self_, self.kind, <Source>source)

    def commit_list(self):
        cdef int status
        with nogil:
            status = self.commit()
        if status != GOES_ON:
            raise MemoryError

    def drop(self):
        """Tells the sink that nobody wants this kind any more."""
        self.listing = False
        self.refusals.clear()
        with nogil:
            self.sink.calls.drop(self.sink.self_, self.kind)
            self.sink.calls.flush(self.sink.self_)

    def begin(self, str content_type, bint watch, long long length, bint initial=False):
        """Prepares for a body: length in octets, -1 for chunked, -2 for one that ends with the connection."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind == PROTOBUF:
            self.protobuf = True
            frames_begin(&self.frames, FRAMING_PROTOBUF_WATCH if watch else FRAMING_PROTOBUF_LIST)
        elif kind == JSON:
            self.protobuf = False
            frames_begin(&self.frames, FRAMING_JSON_WATCH if watch else FRAMING_JSON_LIST)
            self.load_decoders()
        else:
            raise StreamError(f"unexpected content type {content_type!r}")
        self.initial = initial
        self.begin_body(length)

    def begin_raw(self, long long length):
        """Prepares for a body that is kept as it comes (error replies): take_raw gives it."""
        frames_begin(&self.frames, FRAMING_RAW)
        self.begin_body(length)

    def take_raw(self):
        return PyBytes_FromStringAndSize(<const char *>self.frames.data, <Py_ssize_t>self.frames.length)

    def feed(self, const uint8_t[::1] buffer not None, Py_ssize_t count):
        """Takes the first `count` octets of a buffer. True when the body is over.

        Raises StreamError, MemoryError, or ApiError for an ERROR event.
        """
        cdef const uint8_t *at = NULL
        cdef const uint8_t *end
        cdef int verdict = GOES_ON
        if count > buffer.shape[0] or count < 0:
            raise ValueError("count is beyond the buffer")
        if count:
            at = &buffer[0]
        end = at + count
        while True:
            with nogil:
                verdict = self.take(&at, end)
                if self.touched and at == end:
                    self.sink.calls.flush(self.sink.self_)
                    self.touched = False
            if verdict == STEP_JSON:
                verdict = self.json_frame()
                if verdict == GOES_ON:
                    continue
            break
        if verdict != GOES_ON:
            self.refuse(verdict)
        return self.ended

    def end(self):
        """The connection is over: the body may end here only when it has no length of its own. True when it was whole."""
        if not self.ended and self.body.transfer == TRANSFER_CLOSE:
            self.ended = True
        return self.ended and frames_complete(&self.frames)

    def finish_list(self):
        """Behind the last octet of a chunk of a list: takes its metadata; StreamError when it is cut short."""
        if not self.ended or not frames_complete(&self.frames):
            raise StreamError("the list is cut short")
        if not self.protobuf and self.frames.framing == FRAMING_JSON_LIST:
            self.json_head()

    # ---- inside ----

    cdef int commit(self) noexcept nogil:
        cdef int status = self.sink.calls.commit(self.sink.self_, self.kind)
        self.sink.calls.flush(self.sink.self_)
        self.touched = False
        if status < 0:
            return MEMORY
        self.listing = False
        return GOES_ON

    cdef int begin_body(self, long long length) except -1:
        self.ended = False
        self.objects = self.events = 0
        if length == -1:
            body_begin(&self.body, TRANSFER_CHUNKED, 0)
        elif length == -2:
            body_begin(&self.body, TRANSFER_CLOSE, 0)
        else:
            body_begin(&self.body, TRANSFER_LENGTH, <uint64_t>length)
        return 0

    cdef int refuse(self, int verdict) except -1:
        cdef Status status
        if verdict == API_ERROR:
            if self.protobuf:
                if skim_status(self.failed, &status) == 0:
                    raise status_error(&status, 500)
                raise StreamError("malformed error event")
            raise api_error(500, JSON, self.failed.data[:self.failed.length])
        if verdict == MEMORY:
            raise MemoryError
        raise StreamError("an object beyond 32 MiB" if verdict == LARGE else "malformed stream")

    cdef int take(self, const uint8_t **at, const uint8_t *end) noexcept nogil:
        """Works through octets until they are used up, or a JSON frame wants the GIL (STEP_JSON)."""
        cdef const uint8_t *run = NULL
        cdef uint64_t length = 0
        cdef int status
        while True:
            status = self.drain()
            if status != GOES_ON:
                return status
            status = body_next(&self.body, at, end, &run, &length)
            if status == BODY_RUN:
                status = frames_add(&self.frames, run, length)
                if status == STEP_NO_MEMORY:
                    return MEMORY
                if status == STEP_TOO_LARGE:
                    return LARGE
            elif status == BODY_MALFORMED:
                return BROKEN
            else:
                if status == BODY_END:
                    self.ended = True
                    at[0] = end
                return GOES_ON

    cdef int drain(self) noexcept nogil:
        """Handles the frames that are whole."""
        cdef Span frame
        cdef int step, status
        while True:
            step = frames_next(&self.frames, &frame)
            if step == STEP_MORE:
                return GOES_ON
            if step == STEP_NO_MEMORY:
                return MEMORY
            if step == STEP_TOO_LARGE:
                return LARGE
            if step < 0:
                return BROKEN
            if not self.protobuf:
                self.failed = frame
                return STEP_JSON
            if step == STEP_META:
                status = self.list_meta(frame)
            elif self.frames.framing == FRAMING_PROTOBUF_LIST:
                status = self.upsert(frame)
            else:
                status = self.event(frame)
            if status != GOES_ON:
                return status

    cdef void keep_version(self, Span version) noexcept nogil:
        if 0 < version.length <= VERSION_MAX:
            memcpy(self.version_text, version.data, version.length)
            self.version_length = <uint8_t>version.length

    cdef int list_meta(self, Span frame) noexcept nogil:
        cdef ListMeta meta
        if skim_list_meta(frame, &meta) < 0 or meta.following.length > CONTINUE_MAX:
            return BROKEN
        self.keep_version(meta.version)
        self.following_length = meta.following.length
        if meta.following.length:
            memcpy(self.following_text, meta.following.data, meta.following.length)
        return GOES_ON

    cdef int upsert(self, Span body) noexcept nogil:
        cdef const Object *object = NULL
        cdef Span version
        cdef int status = skim_object(self.kind, body, self.pod_labels, &self.scratch, &object, &version)
        self.objects += 1
        self.handed += 1
        self.touched = True
        if status != DECODED:
            return MEMORY if status == NO_MEMORY else self.refuse_message(body)
        if self.scratch.trigger.length:
            self.warn(object)
        self.accept(object)
        if self.scratch.is_cut:
            self.note_cuts(object)
        return MEMORY if self.sink.calls.upsert(self.sink.self_, self.kind, object) < 0 else GOES_ON

    cdef int event(self, Span frame) noexcept nogil:
        cdef Event event
        cdef Bookmark bookmark
        cdef const Object *object = NULL
        cdef Span version
        cdef int status
        self.events += 1
        if skim_event(frame, &event) < 0:
            self.note_refused(NULL, b"a malformed event, or one of an unknown type")
            return GOES_ON
        if event.type == EVENT_ERROR:
            self.failed = event.object
            return API_ERROR
        if event.type == EVENT_BOOKMARK:
            if skim_bookmark(event.object, &bookmark) < 0:
                self.note_refused(NULL, b"a malformed bookmark")
                return GOES_ON
            self.keep_version(bookmark.version)
            if bookmark.initial_end and self.initial and self.listing:
                return self.commit()
            return GOES_ON
        if event.type != EVENT_DELETED:
            status = self.upsert(event.object)
            if status == GOES_ON:
                self.object_version(event.object)
            return status
        status = skim_object(self.kind, event.object, False, &self.scratch, &object, &version)
        self.objects += 1
        self.handed += 1
        self.touched = True
        if status != DECODED:
            if status == NO_MEMORY:
                return MEMORY
            status = self.refuse_message(event.object)
            self.object_version(event.object)
            return status
        self.accept(object)
        self.sink.calls.remove(self.sink.self_, self.kind, object)
        self.keep_version(version)
        return GOES_ON

    # ---- objects that are refused ----

    cdef int refuse_message(self, Span body) noexcept nogil:
        """Withdraws the former version of an object in protobuf, if its name can be read."""
        cdef Object object
        read_name(body, &object)
        if object.name.length:
            self.sink.calls.remove(self.sink.self_, self.kind, &object)
        self.note_refused(&object if object.name.length else NULL, b"it is malformed, or has no name")
        return GOES_ON

    cdef void note_refused(self, const Object *object, const char *reason) noexcept nogil:
        with gil:
            try:
                if object == NULL:
                    self.refusals.add("", "", reason.decode())
                else:
                    self.refusals.add(span_text(object.namespace), span_text(object.name), reason.decode())
                    self.remember(object)
            except Exception:       # a log line must not end the watch
                pass

    cdef inline void remember(self, const Object *object) noexcept nogil:
        self.refusing = True
        self.refused[name_word(object)] |= name_bit(object)

    cdef inline void accept(self, const Object *object) noexcept nogil:
        if self.refusing and self.refused[name_word(object)] & name_bit(object):
            with gil:
                try:
                    self.refusals.accept(span_text(object.namespace), span_text(object.name))
                except Exception:
                    pass

    def withdraw(self, str namespace not None, str name not None, str version not None):
        """Removes the former version of an object that cannot be decoded."""
        cdef Object object
        cdef bytes namespace_octets = namespace.encode("utf-8", "replace")
        cdef bytes name_octets = name.encode("utf-8", "replace")
        cdef bytes version_octets = version.encode("utf-8", "replace")
        object.namespace = span_of(namespace_octets)
        object.name = span_of(name_octets)
        object.version = version_parse(span_of(version_octets))
        self.remember(&object)
        with nogil:
            self.sink.calls.remove(self.sink.self_, self.kind, &object)

    cdef int refuse_json(self, tuple named, object error) except -1:
        namespace, name, version = named
        self.objects += 1
        self.handed += 1
        self.touched = True
        if name:
            self.withdraw(namespace, name, version)
        self.refusals.add(namespace, name, f"{type(error).__name__}: {error}")
        if not self.listing and version:
            self.version = version
        return 0

    cdef void object_version(self, Span body) noexcept nogil:
        """Resumes behind this event. The initial events come in no order of versions: there only the bookmark counts."""
        cdef Bookmark meta
        if not self.listing and skim_bookmark(body, &meta) == 0:
            self.keep_version(meta.version)

    cdef void warn(self, const Object *object) noexcept nogil:
        with gil:
            try:
                if len(self.warnings) < 100:
                    self.warnings.append((
                        span_text(object.namespace), span_text(object.name), span_text(self.scratch.trigger),
                    ))
            except Exception:       # a warning must not end the watch
                pass

    cdef void note_cuts(self, const Object *object) noexcept nogil:
        with gil:
            try:
                report_cuts(<int>self.kind, span_text(object.namespace), span_text(object.name), [count for count in self.scratch.cut[:CUT_COUNT]])
            except Exception:       # a log line must not end the watch
                pass

    # ---- JSON, with the GIL ----

    cdef int load_decoders(self) except -1:
        if self.decoder is None:
            import msgspec

            from fastdns.plugins.kubernetes.decode import models

            self.decoder = msgspec.json.Decoder(models.BY_KIND[self.kind])
            self.event_decoder = msgspec.json.Decoder(models.Event)
        return 0

    cdef int json_head(self) except -1:
        import msgspec

        from fastdns.plugins.kubernetes.decode import models

        around = self.frames.around[:self.frames.around_length]
        try:
            try:
                head = msgspec.json.decode(around, type=models.ListHead)
            except RecursionError:
                head = msgspec.json.decode(outline(around, 2), type=models.ListHead)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise StreamError(f"malformed list: {error}") from None
        if head.metadata is None:
            raise StreamError("the list has no metadata")
        self.version = head.metadata.version or ""
        following = (head.metadata.following or "").encode()
        if len(following) > CONTINUE_MAX:
            raise StreamError("a continue token of more than 8192 octets")
        self.following_length = <unsigned int>len(following)
        memcpy(self.following_text, <const char *>following, self.following_length)
        return 0

    cdef int json_frame(self) except -9:
        """One item or event, in `failed`. Only an error event and a lack of memory end the list or watch."""
        cdef bytes octets = self.failed.data[:self.failed.length]
        if self.frames.framing == FRAMING_JSON_LIST:
            try:
                self.json_object(octets, False)
            except MemoryError:
                raise
            except Exception as error:
                self.refuse_json(identify(octets), error)
            return GOES_ON
        self.events += 1
        try:
            event = self.event_decoder.decode(octets)
            type_, body = event.type, event.object
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            self.json_unreadable(octets, error)
            return GOES_ON
        if type_ == "ERROR":
            raise api_error(500, JSON, bytes(body))
        try:
            if type_ == "BOOKMARK":
                self.json_bookmark(body)
            elif type_ in ("ADDED", "MODIFIED", "DELETED"):
                version = self.json_object(body, type_ == "DELETED")
                if not self.listing and version:
                    self.version = version
            else:
                self.refusals.add("", "", f"an event of the unknown type {type_!r}")
        except MemoryError:
            raise
        except Exception as error:
            self.refuse_json(("", "", "") if type_ == "BOOKMARK" else identify(bytes(body)), error)
        return GOES_ON

    cdef int json_unreadable(self, bytes octets, object error) except -1:
        """An event that msgspec cannot read, be it for its depth."""
        type_, named = identify_event(octets)
        if type_ == "ERROR":
            raise ApiError(500, "", "an error event that cannot be read")
        if type_ == "BOOKMARK":
            self.refusals.add("", "", f"a bookmark: {error}")
            if not self.listing and named[2]:
                self.version = named[2]
            return 0
        return self.refuse_json(named, error)

    cdef int json_bookmark(self, object raw) except -1:
        import msgspec

        from fastdns.plugins.kubernetes.decode import models

        meta = msgspec.json.decode(raw, type=models.Namespace).metadata
        if meta.resource_version:
            self.version = meta.resource_version
        if self.initial and self.listing and (meta.annotations or {}).get("k8s.io/initial-events-end") == "true":
            self.commit_list()
        return 0

    cdef object json_object(self, object octets, bint removed):
        """Hands one object to the sink; returns its version."""
        model = self.decoder.decode(octets)
        self.give(model, removed)
        return model.metadata.resource_version

    def give(self, model not None, bint removed=False):
        """Hands a model (models.py) of this stream's kind to the sink: manifests come in this way.

        Raises StreamError when it has no name, MemoryError.
        """
        cdef const Object *object = NULL
        cdef int status = fill_object(self.kind, model, self.pod_labels, &self.scratch, &object)
        if status == NO_MEMORY:
            raise MemoryError
        if status != DECODED:
            raise StreamError("malformed object: no name")
        self.objects += 1
        self.handed += 1
        self.touched = True
        if self.scratch.trigger.length:
            self.warn(object)
        if self.refusals.standing:
            self.refusals.accept(span_text(object.namespace), span_text(object.name))
        if self.scratch.is_cut:
            self.note_cuts(object)
        with nogil:
            if removed:
                self.sink.calls.remove(self.sink.self_, self.kind, object)
            else:
                status = self.sink.calls.upsert(self.sink.self_, self.kind, object)
        if status < 0:
            raise MemoryError

    def flush(self):
        """Makes the objects so far visible."""
        with nogil:
            self.sink.calls.flush(self.sink.self_)
        self.touched = False


cdef class ObjectStream(Stream):
    """Objects of a kind that no decoder here knows: in JSON, for a `Taker`."""
    cdef object taker

    def __init__(self, taker):
        self.taker = taker
        self.refusals = taker.refusals

    def begin(self, str content_type, bint watch, long long length, bint initial=False):
        if content_type.partition(";")[0].strip().lower() != JSON:
            raise StreamError(f"unexpected content type {content_type!r}")
        Stream.begin(self, content_type, watch, length, initial)

    cdef object json_object(self, object octets, bint removed):
        version = self.taker.take(octets, removed)
        self.objects += 1
        self.handed += 1
        self.touched = True
        return version

    def withdraw(self, str namespace not None, str name not None, str version not None):
        self.taker.withdraw(namespace, name, version)
