"""The fuzz targets: what each gets octets for, and what of the package it is for.

Native targets are C functions of modules of tests/native (`MODULES`), the others functions of this folder. All take octets and return what is
wrong beside a crash, "" for nothing. A target's corpus is ``tests/fuzz/corpora/NAME/``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.fuzz import captures, corefiles, stored, transfers, watches
from tests.fuzz.test_transfer import WORDS as RECORDS
from tests.fuzz.test_zonefile import WORDS
from tests.native import compiled

CORPORA = Path(__file__).resolve().parent / "corpora"
#: Inputs that were wrong once, by names that say how.
REGRESSIONS = Path(__file__).resolve().parent / "regressions"

MODULES = ("_targets", "_zone_targets", "_streams")

DECODE = "plugins.kubernetes.decode"


#: What libFuzzer puts into inputs: one a line, with Python's escapes.
HTTP_WORDS = r"""
GET
POST
HEAD
 HTTP/1.1\r\n
/dns-query
?dns=
\r\n\r\n
Host: a\r\n
Content-Length:
Transfer-Encoding: chunked\r\n
Expect: 100-continue\r\n
Connection: close\r\n
0\r\n\r\n
5\r\n
HTTP/1.1 200 OK\r\n
HTTP/1.1 100 Continue\r\n\r\n
"""
JSON_WORDS = r"""
"type":"ADDED"
DELETED
BOOKMARK
ERROR
"object":{
"metadata":{
"name":"
"namespace":"
"resourceVersion":"
"items":[
"continue":"
"spec":{
"ports":[
"port":
"endpoints":[
"addresses":["
"clusterIPs":["
"externalName":"
"ready":false
"status":{
"podIP":"
"loadBalancer":{"ingress":[
"labels":{
"annotations":{
null
true
"""
COREFILE_WORDS = r"""
{\n
}\n
import
(a) {
"
#
\\"
{$HOME}
{%HOME%}
.:53
\n
\r\n
forward .
whoami
cache {
"""


def words(text: str) -> tuple[bytes, ...]:
    return tuple(line.encode().decode("unicode_escape").encode() for line in text.split("\n") if line)


class Target(NamedTuple):
    #: Function that gets the octets first.
    entry: str
    #: Modules of the package whose coverage counts.
    modules: tuple[str, ...]
    #: None: native.
    check: Callable[[bytes], str] | None = None
    #: What libFuzzer puts into inputs.
    words: tuple[bytes, ...] = ()


TARGETS = {
    "packet": Target("wire_accept", ("_wire",)),
    "name": Target("wire_read_name, text_read_name", ("_wire", "message.text")),
    "edns": Target("wire_accept, finish_write", ("_wire", "walk.finish")),
    "tsig": Target("tsig_read", ("_wire", "message.tsig")),
    "reply": Target("reply_parse, finish_write", ("_wire", "message.reply", "walk.finish")),
    "tcp": Target("dns_framing.input", ("engine.io.connection", "engine.io.framing")),
    "http": Target("http1_protocol.input", ("engine.http.head", "engine.http.http1", "engine.http.message", "engine.http.doh"), words=words(HTTP_WORDS)),
    "http2": Target("http2_protocol.input", ("engine.http.session", "engine.http.request", "engine.http.grpc")),
    "http-response": Target("http1_read", ("engine.http.head", "plugins.forward.transport.http1"), words=words(HTTP_WORDS)),
    "proxy": Target("proxy_parse", ("proxy.header", "proxy.tlvs")),
    "zone-file": Target("zonefile_parse", ("zonefile",), words=tuple(WORDS)),
    "svcb": Target("rdata_parse, rdata_valid, strip_hint", ("zonefile.svcb", "plugins.filter_aaaa._strip"), words=tuple(WORDS)),
    "transfer": Target("Receiver.feed", ("plugins.secondary._receive", "index"), transfers.check, tuple(RECORDS)),
    "stored-zone": Target("ZoneFile.read, read_changes", ("index",), stored.check, tuple(RECORDS)),
    "capture": Target("read_recorded", ("comparison",), captures.check),
    "corefile": Target("corefile.parser.parse", ("corefile",), corefiles.check, words(COREFILE_WORDS)),
    "watch-protobuf": Target("Stream.feed", (f"{DECODE}.body", f"{DECODE}.frames", f"{DECODE}.protobuf", f"{DECODE}.fields"), watches.check_protobuf),
    "watch-json": Target("Stream.feed", (f"{DECODE}.body", f"{DECODE}.frames", f"{DECODE}.json"), watches.check_json, words(JSON_WORDS)),
}


def native(name: str) -> ModuleType:
    """A module of tests/native: under libFuzzer the one that clang has compiled, else one compiled for the tests."""
    return importlib.import_module(f"tests.native.{name}") if os.environ.get("FASTDNS_FUZZED") else compiled(name)


def address(name: str) -> int:
    """Of a native target's function."""
    found: dict[str, int] = {at: where for module in MODULES for at, where in native(module).addresses().items()}
    return found[name]


def check(name: str, octets: bytes) -> str:
    """What a target says of octets."""
    target = TARGETS[name]
    if target.check is not None:
        return target.check(octets)
    said: str = native("_targets").call(address(name), octets)
    return said
