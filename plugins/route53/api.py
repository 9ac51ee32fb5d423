"""Route 53's API: record sets of a hosted zone, and their texts. Imports botocore, which boto3 stands on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import botocore.session
import urllib3.connection
from botocore.config import Config
from botocore.utils import IMDSRegionProvider

from fastdns.control.budget import BudgetResponse
from fastdns.plugins.file.hosted import Row, row
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from fastdns.plugins.route53.settings import Settings

__all__ = ["Api", "rows", "unescape"]

log = Log("plugin/route53")

# botocore's connections are urllib3's. Threads without a budget read as before.
urllib3.connection.HTTPConnection.response_class = BudgetResponse

#: Record sets of a page.
PAGE = 1000
#: Seconds.
CONNECT_TIMEOUT = 10
READ_TIMEOUT = 30
#: Calls that fail because of the network, throttling or the server (5xx) are made again, after growing delays of up to 20 seconds.
ATTEMPTS = 5

#: Where nothing else says it.
REGION = "us-east-1"

#: What strconv.ParseBool takes for true.
TRUE = {"1", "t", "T", "TRUE", "true", "True"}

#: An escape in a name: a backslash and three digits.
ESCAPE = re.compile(r"\\(.{0,3})", re.DOTALL)
OCTAL = re.compile(r"[0-7]{3}")
#: Text within quotation marks, in which a backslash escapes.
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
QUOTED_OCTAL = re.compile(r"\\(?:([0-7]{3})|(.))", re.DOTALL)
#: What an escape in a name may stand for, beside a wildcard's asterisk.
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


class Api:
    """The client of one directive. Its functions raise what botocore raises."""

    def __init__(self, settings: Settings) -> None:
        session = botocore.session.Session(profile=settings.profile or None)
        if settings.file:
            session.set_config_variable("credentials_file", settings.file)
            if os.environ.get("AWS_SDK_LOAD_CONFIG") not in TRUE:
                session.set_config_variable("config_file", settings.file)
        key, secret = settings.key or (None, None)
        config = Config(
            connect_timeout=CONNECT_TIMEOUT, read_timeout=READ_TIMEOUT, retries={"mode": "standard", "total_max_attempts": ATTEMPTS}, max_pool_connections=8
        )
        self._client: Any = session.create_client(
            "route53", _region(session), endpoint_url=settings.endpoint or None, aws_access_key_id=key, aws_secret_access_key=secret, config=config
        )

    def verify(self, origin: str, number: str) -> None:
        """Raises an error if the hosted zone cannot be asked for."""
        self._client.list_hosted_zones_by_name(DNSName=origin, HostedZoneId=number)

    def records(self, number: str) -> Iterator[Row]:
        """The records of a hosted zone, page by page."""
        wanted: dict[str, Any] = {"HostedZoneId": number, "MaxItems": str(PAGE)}
        while True:
            page = self._client.list_resource_record_sets(**wanted)
            for record_set in page["ResourceRecordSets"]:
                yield from rows(record_set)
            if not page["IsTruncated"]:
                return
            wanted = {"HostedZoneId": number, "MaxItems": str(PAGE)} | {
                f"Start{field.removeprefix('Next')}": page[field] for field in ("NextRecordName", "NextRecordType", "NextRecordIdentifier") if page.get(field)
            }


def _region(session: botocore.session.Session) -> str:
    """It says which of AWS's partitions is asked: Route 53 is one service for all regions of each."""
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    return region or IMDSRegionProvider(session).provide() or REGION


def rows(record_set: dict[str, Any]) -> Iterator[Row]:
    """The records of a set; none of an alias. At one that cannot be served the rest is left out with a warning."""
    try:
        for record in record_set.get("ResourceRecords", ()):
            owner, value = _unescaped(record_set["Name"], "name"), _unescaped(record["Value"], "value")
            yield row(owner, record_set["Type"], int(record_set["TTL"]), value)
    except ValueError as error:
        log.warning(f"Failed to process resource record set: {error}")


def _unescaped(text: str, what: str) -> str:
    try:
        if '"' in text:
            return QUOTED.sub(_decimal, text)
        return unescape(text)
    except ValueError as error:
        raise ValueError(f"failed to unescape `{text}' {what}: {error}") from None


def unescape(text: str) -> str:
    r"""A name with Route 53's octal escapes resolved: ``\052.example.com`` is ``*.example.com``. Raises ValueError with CoreDNS's texts."""

    def character(found: re.Match[str]) -> str:
        digits = found[1]
        if not OCTAL.fullmatch(digits) or int(digits, 8) > 127:
            raise ValueError(f"invalid escape sequence: '\\{digits}'")
        plain = chr(int(digits, 8))
        if plain == "*" and found.start():
            raise ValueError("`*' only supported as wildcard (leftmost label)")
        if plain not in PLAIN and plain != "*":
            octal = f"{ord(plain):03o}"
            raise ValueError(f"invalid character: \\{octal if octal[0] == '0' else '0' + octal}")
        return plain

    return ESCAPE.sub(character, text)


def _decimal(found: re.Match[str]) -> str:
    """Text in quotation marks with decimal escapes, which are those of master files, in place of octal ones."""
    return QUOTED_OCTAL.sub(lambda escape: f"\\{int(escape[1], 8) & 0xFF:03d}" if escape[1] else escape[0], found[0])
