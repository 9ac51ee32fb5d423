"""``python -m tests.apiserver.churn``: change endpoints at a given rate and record each change as a JSON line.

A change gives one endpoint of a slice a new address out of 198.18.0.0/15 (or 2001:db8::/32) that was never used before: the moment at
which a DNS answer has it tells how long the change took to arrive. A line has the times at which the request was sent and answered
(seconds since 1970), the name that the endpoint of a headless service has in the cluster's domain, the old and the new address, and the
object as it is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import random
import sys
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any, TextIO

from tests.apiserver.client import Connection, add_server_arguments, connect

__all__ = ["main"]

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
NEW_ADDRESSES: dict[str, ipaddress.IPv4Address | ipaddress.IPv6Address] = {
    "IPv4": ipaddress.IPv4Address("198.18.0.0"),
    "IPv6": ipaddress.IPv6Address("2001:db8::"),
}
#: Slices of one page of a list.
PAGE = 500

Slice = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser()
    options = made.parse_args(arguments)
    if not options.server:
        made.error("give --server")
    return asyncio.run(change(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.apiserver.churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_server_arguments(made)
    made.add_argument("--rate", type=float, default=10, help="changes a second (default: %(default)s)")
    made.add_argument("--seconds", type=float, default=10, help="how long (default: %(default)s)")
    made.add_argument("--selector", default="service.kubernetes.io/headless", help="label selector of the slices (default: those of headless services)")
    made.add_argument("--domain", default="cluster.local")
    made.add_argument("--first", type=int, default=0, help="how far into the address range to start, for a second run")
    made.add_argument("--output", default="-", help="file for the JSON lines (default: standard output)")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--connections", type=int, default=16)
    return made


async def change(options: argparse.Namespace) -> int:
    slices = await list_slices(connect(options), options.selector)
    if not slices:
        print("churn: no endpoint slices match", file=sys.stderr)
        return 1
    with sys.stdout if options.output == "-" else open(options.output, "w", encoding="utf-8") as out:
        await Churn(options, slices, out).run()
    return 0


async def list_slices(connection: Connection, selector: str) -> list[Slice]:
    """Those with endpoints that have addresses. Raises APIError, OSError."""
    slices: list[Slice] = []
    following = ""
    while True:
        query = urllib.parse.urlencode({"labelSelector": selector, "limit": PAGE, "continue": following})
        page = await connection.get_json(f"{SLICES}?{query}")
        slices += [item for item in page["items"] if item.get("endpoints") and item["addressType"] in NEW_ADDRESSES]
        following = page["metadata"].get("continue")
        if not following:
            connection.close()
            return slices


def domain_name(item: Slice, endpoint: dict[str, Any], domain: str) -> str:
    service = item["metadata"]["labels"].get("kubernetes.io/service-name")
    host = endpoint.get("hostname") or endpoint["addresses"][0].replace(".", "-").replace(":", "-")
    return f"{host}.{service}.{item['metadata']['namespace']}.svc.{domain}."


class Churn:
    """Changes ``slices`` and writes the lines to ``out``."""

    def __init__(self, options: argparse.Namespace, slices: list[Slice], out: TextIO) -> None:
        self.options, self.slices, self.out = options, slices, out
        self.random = random.Random(options.seed)
        self.changes = self.errors = self.skipped = 0
        #: Indexes of slices with a request under way.
        self.busy: set[int] = set()

    async def run(self) -> None:
        """Changes start on an even schedule, over enough connections that one slow answer delays no other."""
        idle: asyncio.Queue[Connection] = asyncio.Queue()
        for _ in range(self.options.connections):
            idle.put_nowait(connect(self.options))

        async def change_on(connection: Connection) -> None:
            try:
                await self.change_one(connection)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.errors += 1
                connection.close()
                print(f"churn: {error}", file=sys.stderr)
            finally:
                idle.put_nowait(connection)

        start = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(round(self.options.rate * self.options.seconds)):
                await asyncio.sleep(start + number / self.options.rate - time.monotonic())
                group.create_task(change_on(await idle.get()))
        seconds = time.monotonic() - start
        result = {"changes": self.changes, "errors": self.errors, "skipped": self.skipped, "seconds": round(seconds, 2)}
        print(json.dumps({**result, "per_second": round(self.changes / seconds, 1)}), file=sys.stderr)

    async def change_one(self, connection: Connection) -> None:
        index = self.random.randrange(len(self.slices))
        if index in self.busy:
            self.skipped += 1
            return
        self.busy.add(index)
        try:
            await self.replace_address(connection, index)
        finally:
            self.busy.discard(index)

    async def replace_address(self, connection: Connection, index: int) -> None:
        item = self.slices[index]
        self.changes += 1
        endpoint = self.random.choice(item["endpoints"])
        old, new = endpoint["addresses"][0], str(NEW_ADDRESSES[item["addressType"]] + self.options.first + self.changes)
        endpoint["addresses"] = [new]
        metadata = item["metadata"]
        metadata.pop("resourceVersion", None)  # overwrite whatever is stored
        metadata.pop("managedFields", None)
        path = f"/apis/discovery.k8s.io/v1/namespaces/{metadata['namespace']}/endpointslices/{metadata['name']}"
        sent = time.time()
        status, reply = await connection.request("PUT", path, json.dumps(item).encode())
        answered = time.time()
        if status != 200:
            self.errors += 1
            print(f"churn: {path}: HTTP {status}: {reply[:300]!r}", file=sys.stderr)
            return
        stored = self.slices[index] = json.loads(reply)
        line = {
            "sent": sent,
            "answered": answered,
            "name": domain_name(item, endpoint, self.options.domain),
            "old": old,
            "new": new,
            "resourceVersion": stored["metadata"]["resourceVersion"],
            "object": stored,
        }
        self.out.write(json.dumps(line, separators=(",", ":")) + "\n")
        self.out.flush()  # readers may follow the file


if __name__ == "__main__":
    sys.exit(main())
