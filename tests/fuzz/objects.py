"""Random objects of every watched kind, up to the API's own limits and beyond, as a tenant may write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from fastdns.plugins.kubernetes.watch.resources import Kind
from tests.plugins.kubernetes.test_decoders import MESSAGES, frame

#: The largest object that etcd takes, and the API server's limit of a request.
OBJECT_MAX = 1_500_000
NAMES = 12
TEXTS = ["", "x", "a" * 63, "b" * 64, "c" * 300, "None", "é\u0000", "\ud800", "..", "*", "10.0.0.1", "fd00::1", "::ffff:1.2.3.4", "_http", "a.b", "A" * 5000]
NUMBERS: list[Any] = [0, 1, -1, 80, 65535, 65536, 2**31, 2**63, 10**400, 1.5, "80", None, True]
COUNTS = [0, 1, 2, 16, 300, 4_095, 4_097, 20_000, 65_535, 66_000]


def text(chance: random.Random) -> str:
    return chance.choice(TEXTS)


def odd(chance: random.Random, value: Any) -> Any:
    """Now and then something else in the place of a value."""
    if chance.random() > 0.02:
        return value
    return chance.choice([None, [], {}, 5, "x", [[[]]], "@deep@", {"x": "@deep@"}, *NUMBERS])


def many(chance: random.Random, make: Callable[[int], Any], octets: int) -> list[Any]:
    """As many as a count says, as long as the object stays below the limit or a little above."""
    return [make(number) for number in range(min(chance.choice(COUNTS), OBJECT_MAX * 11 // 10 // octets))]


def address(number: int) -> str:
    return f"172.{16 + number // 65536 % 16}.{number // 256 % 256}.{number % 256}"


def port(chance: random.Random) -> dict[str, Any]:
    return {"name": odd(chance, f"p{chance.randrange(9)}"), "protocol": odd(chance, "TCP"), "port": odd(chance, chance.randrange(1, 65536))}


def metadata(chance: random.Random, version: int, service: bool) -> dict[str, Any]:
    labels: dict[str, Any] = {f"l{number}": text(chance) for number in range(chance.choice(COUNTS))} if chance.random() < 0.2 else {"app": "web"}
    if service:
        labels |= {"kubernetes.io/service-name": odd(chance, f"evil{chance.randrange(NAMES)}")}
    found = {"namespace": "evil", "name": f"evil{chance.randrange(NAMES)}", "resourceVersion": str(version), "labels": odd(chance, labels)}
    if chance.random() < 0.05:
        found[chance.choice(["name", "namespace"])] = odd(chance, text(chance))
    if chance.random() < 0.05:
        found["managedFields"] = ["@deep@"]
    return found


def thing(chance: random.Random, kind: Kind, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": odd(chance, metadata(chance, version, kind is Kind.SLICE))}
    if kind is Kind.SERVICE:
        spec = {"clusterIP": chance.choice(["None", "10.96.9.9", text(chance)]), "type": chance.choice(["ClusterIP", "ExternalName", "LoadBalancer"])}
        found["spec"] = spec | {
            "externalIPs": odd(chance, many(chance, address, 18)),
            "ports": odd(chance, many(chance, lambda _: port(chance), 60)),
            "externalName": text(chance),
        }
        found["status"] = {"loadBalancer": {"ingress": [{"ip": address(number)} for number in range(chance.choice([0, 3, 5000]))]}}
    elif kind is Kind.SLICE:
        pods = [{"addresses": [address(number)], "hostname": f"h{number}", "targetRef": {"name": f"p{number}"}} for number in range(chance.choice(COUNTS[:7]))]
        found["endpoints"] = odd(chance, [*pods, {"addresses": odd(chance, ["10.1.0.9", text(chance)]), "hostname": text(chance)}])
        found["ports"] = odd(chance, many(chance, lambda _: port(chance), 60))
    elif kind is Kind.POD:
        found["spec"] = odd(chance, {"nodeName": text(chance), "hostNetwork": chance.random() < 0.1})
        found["status"] = odd(chance, {"podIP": chance.choice([address(chance.randrange(2000)), text(chance)])})
    return odd(chance, found)


def octets(value: Any) -> bytes:
    """JSON, in which a mark stands for what is nested deeply."""
    deep = "[" * 50_000
    return json.dumps(value).replace('"@deep@"', deep + deep.replace("[", "]")).encode()


def event(chance: random.Random, kind: Kind, version: int, protobuf: bool) -> bytes:
    """An event of a watch about an object of tenant *evil*."""
    type_ = chance.choice(["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ODD" if chance.random() < 0.1 else "ADDED"])
    found = thing(chance, kind, version)
    if not protobuf:
        return octets({"type": type_, "object": found})
    try:
        message = MESSAGES[kind](found)
    except (AttributeError, KeyError, OverflowError, TypeError, UnicodeError, ValueError):  # protobuf cannot say it
        message = bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
    if chance.random() < 0.1:
        message = message[: chance.randrange(len(message) + 1)]
    return frame(type_, message)
