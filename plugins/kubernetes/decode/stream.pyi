"""From the octets of an HTTP body to calls of a sink."""

from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.refusals import Refusals
from fastdns.plugins.kubernetes.decode.taker import Taker

PROTOBUF: str
JSON: str

class StreamError(ValueError):
    """The body is not what it says it is: truncated, malformed, too large or of an unknown content type."""

class ApiError(Exception):
    """An error that the API server reported, as the status of a reply or as an event of a watch."""

    code: int
    reason: str
    message: str
    retry_after: float
    def __init__(self, code: int, reason: str = "", message: str = "", retry_after: float = 0) -> None: ...

def api_error(code: int, content_type: str, body: bytes) -> ApiError:
    """The ApiError of a reply with an error status; its body may be a Status in protobuf or JSON, or anything else."""

class Stream:
    """Decodes the bodies of one reflector's replies and hands their objects to a sink.

    Protobuf is decoded without the GIL. Not for several threads at once.
    """

    #: The resource version to resume from. One of more than 63 octets is not kept.
    version: str
    #: Objects that cannot be decoded cost themselves alone: each is counted and logged there, and its former version is removed from the sink.
    refusals: Refusals

    def __init__(self, sink: Sink, kind: int = 0, pod_labels: bool = False) -> None: ...
    @property
    def following(self) -> str:
        """The token that asks for the next chunk of a list; empty behind the last."""

    @property
    def listing(self) -> bool:
        """Whether a full list has begun and not been committed."""

    @property
    def ended(self) -> bool:
        """Whether the body is over."""

    @property
    def objects(self) -> int:
        """Objects decoded from this body."""

    @property
    def events(self) -> int:
        """Events of a watch from this body, bookmarks included."""

    @property
    def handed(self) -> int:
        """Objects decoded in all."""

    def take_warnings(self) -> list[tuple[str, str, str]]:
        """(namespace, name, text) of slices whose last-change-trigger-time is no RFC 3339 time, since the last call."""

    def begin_list(self, source: int = 0) -> None: ...
    def commit_list(self) -> None: ...
    def drop(self) -> None: ...
    def begin(self, content_type: str, watch: bool, length: int, initial: bool = False) -> None: ...
    def begin_raw(self, length: int) -> None: ...
    def take_raw(self) -> bytes: ...
    def feed(self, buffer: bytearray | memoryview | bytes, count: int) -> bool: ...
    def end(self) -> bool: ...
    def finish_list(self) -> None: ...
    def give(self, model: object, removed: bool = False) -> None:
        """Hand a model (models.py) of this stream's kind to the sink. Raises StreamError for one without a name."""

    def withdraw(self, namespace: str, name: str, version: str) -> None:
        """Remove the former version of an object that cannot be decoded."""

    def flush(self) -> None: ...

class ObjectStream(Stream):
    """The same for objects of any kind, in JSON alone."""

    def __init__(self, sink: Taker) -> None: ...
