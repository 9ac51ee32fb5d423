"""Fuzz targets: bodies of the Kubernetes API, in protobuf and in JSON, whole and cut anywhere; what was decoded is decoded from the other form, too."""

from __future__ import annotations

import datetime
import json
import random
from typing import Any

from fastdns.plugins.kubernetes.decode.stream import JSON, PROTOBUF, ApiError, Stream, StreamError
from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.native.recorder import Recorder
from tests.plugins.kubernetes.test_decoders import MESSAGES, TRIGGER, field, frame, message, meta, ports

WATCH = 8  # bits of the first octet: events, else a list; its lowest three are the kind
CHUNKED = 16  # the octets are those of a chunked body
SERVICE = {Kind.SLICE: "kubernetes.io/service-name", Kind.IMPORT_SLICE: "multicluster.kubernetes.io/service-name"}
CLUSTER = "multicluster.kubernetes.io/source-cluster"
NO_PORTS = [("", "", -1)]

View = dict[str, Any]
#: Objects, what happened, the version to go on from, the error.
Decoded = tuple[dict[tuple[str, str], View], list[tuple[Any, ...]], str, str]


def decoded(kind: int, form: str, how: int, octets: bytes, seed: int) -> Decoded:
    """seed: of the pieces that the octets come in; 0: one piece, 255: one by one."""
    recorder = Recorder()
    stream = Stream(recorder, kind, True)
    chance = random.Random(seed)
    failure = ""
    stream.begin_list()
    stream.begin(form, bool(how & WATCH), -1 if how & CHUNKED else -2, initial=True)
    try:
        at = 0
        while at < len(octets):
            size = len(octets) if seed == 0 else 1 if seed == 255 else chance.choice((1, 2, 3, 7, 64))
            piece = octets[at : at + size]
            stream.feed(piece, len(piece))
            at += size
        if not stream.end():
            failure = "cut short"
        elif not how & WATCH:
            stream.finish_list()
    except (StreamError, ApiError) as error:
        failure = f"{type(error).__name__}: {error}"
    return recorder.objects(kind), recorder.log, stream.version, failure


def check(form: str, octets: bytes) -> str:
    if len(octets) < 2:
        return ""
    how, seed, body = octets[0], octets[1], octets[2:]
    kind = (how & 7) % len(Kind)
    whole = decoded(kind, form, how, body, 0)
    # Octets behind an error are not looked at: how many there are depends on the pieces.
    if decoded(kind, form, how, body, seed or 255) != whole:
        return "octets that come in pieces are decoded to something else"
    for view in whole[0].values():
        other = PROTOBUF if form == JSON else JSON
        if "\ufffd" in repr(view) or any(named_by(hints) is None for _, hints in view.get("places", ())):  # not UTF-8, and what JSON cannot say
            continue
        body = protobuf_event(Kind(kind), view) if other == PROTOBUF else json_event(Kind(kind), view)
        again, _, _, failure = decoded(kind, other, WATCH, body, 0)
        if failure or [*again.values()] != ([] if view.get("terminating") else [view]):
            return f"decoded as {view} in one form, as {again} in the other {failure}"
    return ""


def check_protobuf(octets: bytes) -> str:
    return check(PROTOBUF, octets)


def check_json(octets: bytes) -> str:
    return check(JSON, octets)


# ---- from what was decoded to what is sent ----


def addresses(listed: list[tuple[Any, ...]]) -> list[str]:
    return [text for text, _, _ in listed]


def named_by(hints: bytes) -> dict[str, Any] | None:
    """EndpointHints by names of fields; None where they are not in the form that JSON is brought into."""
    zones: list[dict[str, str]] = []
    nodes: list[dict[str, str]] = []
    at = 0
    while at < len(hints):
        tag, size, inner, length = [*hints[at : at + 4], 0, 0, 0, 0][:4]
        name = hints[at + 4 : at + 2 + size]
        if (tag, inner) not in ((10, 10), (18, 10)) or not 2 <= size <= 127 or length != size - 2 or len(name) != length or not name.isascii():
            return None
        if tag == 10 and nodes:
            return None
        (zones if tag == 10 else nodes).append({"name": name.decode()})
        at += 2 + size
    return {"forZones": zones, "forNodes": nodes}


def thing(kind: Kind, view: View) -> dict[str, Any]:
    """An object as the API shows it, by names of fields."""
    labels: dict[str, str] = {}
    annotations = {}
    found: dict[str, Any] = {}
    if "ports" in view and (view["ports"] != NO_PORTS or kind is Kind.IMPORT):
        found["ports"] = [{"name": name, "protocol": protocol, "port": number} for name, protocol, number in view["ports"]]
    if kind is Kind.SERVICE:
        found |= {"clusterIP": "None" if view["headless"] else "", "clusterIPs": addresses(view["cluster_ips"])}
        found |= {"type": "ExternalName" if view["external"] else "", "externalName": view["external_name"]}
        found |= {"externalIPs": addresses(view["external_ips"])}
        found = {"spec": found}
    elif kind in SERVICE:
        labels = {SERVICE[kind]: view["service"], CLUSTER: view["cluster"]}
        if view["trigger"]:
            seconds, fraction = divmod(view["trigger"], 10**9)
            moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
            annotations = {TRIGGER: f"{moment.isoformat()}.{fraction:09d}Z"}
        found["endpoints"] = [
            {"addresses": [address[0]], "hostname": host, "targetRef": {"name": pod}, "zone": zone, "nodeName": node, "hints": named_by(hints)}
            for (address, host, pod, zone), (node, hints) in zip(view["endpoints"], view["places"], strict=True)
        ]
        found.setdefault("ports", [])
    elif kind is Kind.POD:
        labels = view["labels"]
        found = {"spec": {"hostNetwork": view["host_network"], "nodeName": view["place"][0]}, "status": {"podIP": view["ip"][0]}}
    elif kind is Kind.IMPORT:
        found = {"spec": found | {"type": "Headless" if view["headless"] else "ClusterSetIP", "ips": addresses(view["ips"])}}
    named = {"name": view["name"], "namespace": view["namespace"], "resourceVersion": str(view["version"])}
    return found | {"metadata": named | {"labels": labels, "annotations": annotations}}


def json_event(kind: Kind, view: View) -> bytes:
    return json.dumps({"type": "ADDED", "object": thing(kind, view)}).encode()


def import_message(one: dict[str, Any]) -> bytes:
    """In the form of the snapshot, which is the only one in protobuf."""
    spec = one["spec"]
    return message((1, meta(one)), *ports(2, spec["ports"]), (3, spec["type"]), *((4, ip) for ip in spec["ips"]))


def protobuf_event(kind: Kind, view: View) -> bytes:
    writers = {**MESSAGES, Kind.IMPORT: import_message, Kind.IMPORT_SLICE: MESSAGES[Kind.SLICE]}
    return frame("ADDED", writers[kind](thing(kind, view)))


# ---- seeds ----


def framed(how: int, body: bytes) -> bytes:
    return bytes([how, 0]) + body


def seeds(form: str, objects: list[tuple[Kind, dict[str, Any], View]]) -> list[bytes]:
    """Bodies for a corpus."""
    found = []
    for kind, one, _ in objects:
        if form == JSON:
            body = json.dumps({"type": "ADDED", "object": one}).encode()
            listed = json.dumps({"kind": "List", "metadata": {"resourceVersion": "9"}, "items": [one, one]}).encode()
        else:
            body = frame("ADDED", MESSAGES[kind](one))
            listed = b"k8s\0" + field(2, message((1, message((2, "99"))), (2, MESSAGES[kind](one))))
        found += [framed(kind | WATCH, body), framed(kind, listed), framed(kind | WATCH | CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))]
        found.append(framed(kind | WATCH, body + body.replace(b"ADDED", b"DELETED" if form == JSON else b"ERROR")))
    return found
