"""``python -m tests.apiserver.populate``: fill an API server with a synthetic cluster, or write the cluster to a file."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from tests.apiserver.client import APIError, Connection, add_server_arguments, connect
from tests.apiserver.synthetic import SIZES, Size, SyntheticCluster

__all__ = ["main"]

COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Service": "/api/v1/namespaces/{}/services",
    "Pod": "/api/v1/namespaces/{}/pods",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
}


def main(arguments: Sequence[str] | None = None) -> int:
    made = parser()
    options = made.parse_args(arguments)
    if not options.server and not options.to_file:
        made.error("give --server or --to-file")
    given = {field.name: number for field in fields(Size) if (number := getattr(options, field.name)) is not None}
    cluster = SyntheticCluster(replace(SIZES[options.size], **given), options.seed, options.dual_stack, options.not_ready)
    objects = (item for item in cluster.objects() if not (options.without_pods and item["kind"] == "Pod"))
    start = time.monotonic()
    if options.to_file:
        results = write_file(objects, options.to_file)
    else:
        try:
            results = asyncio.run(create(objects, options))
        except* (APIError, OSError, asyncio.IncompleteReadError) as group:
            raise SystemExit(f"populate: {group.exceptions[0]}") from None
    seconds = time.monotonic() - start
    print(json.dumps({"objects": results, "seconds": round(seconds, 1), "per_second": round(results.total() / seconds)}), file=sys.stderr)
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.apiserver.populate", description="Fill an API server with a synthetic cluster.")
    add_server_arguments(made)
    made.add_argument("--to-file", metavar="FILE", help="write there instead: JSON lines if it ends in .jsonl, else multi-document YAML")
    made.add_argument("--size", choices=SIZES, default="small", help="gives the numbers that are not given (default: %(default)s)")
    for field in fields(Size):
        made.add_argument(f"--{field.name.replace('_', '-')}", type=int, metavar="N")
    made.add_argument("--dual-stack", type=float, default=0.1, help="share of the services with IPv4 and IPv6 (default: %(default)s)")
    made.add_argument("--not-ready", type=float, default=0.03, help="share of the endpoints that are not ready (default: %(default)s)")
    made.add_argument("--without-pods", action="store_true", help="the same services and slices, but no pods")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--connections", type=int, default=48)
    return made


async def create(objects: Iterator[dict[str, Any]], options: argparse.Namespace) -> Counter[str]:
    """How many objects of each kind were created or existed before. Raises groups of APIError, OSError, asyncio.IncompleteReadError."""
    results: Counter[str] = Counter()

    async def worker() -> None:
        connection = connect(options)
        for item in objects:
            created = await create_one(connection, item)
            results[item["kind"] if created else f"{item['kind']} (existed)"] += 1
        connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(options.connections):
            group.create_task(worker())
    return results


async def create_one(connection: Connection, item: dict[str, Any]) -> bool:
    """False if it exists. Raises APIError."""
    path = COLLECTIONS[item["kind"]].format(item["metadata"].get("namespace"))
    body = json.dumps(item, separators=(",", ":")).encode()
    while True:
        status, reply = await connection.request("POST", path, body)
        if status != 429:
            break
        await asyncio.sleep(0.2)
    if status == 422:  # also the status for a service whose address is taken, by itself
        found, _ = await connection.request("GET", f"{path}/{item['metadata']['name']}")
        status = 409 if found == 200 else status
    if status not in (201, 409):
        raise APIError(status, reply.decode(errors="replace"))
    return status == 201


def write_file(objects: Iterable[dict[str, Any]], name: str) -> Counter[str]:
    """How many objects of each kind; ``-`` is standard output."""
    results: Counter[str] = Counter()
    separator = "" if name.endswith((".jsonl", ".json")) else "---\n"  # JSON is YAML, too
    with sys.stdout if name == "-" else open(name, "w", encoding="utf-8") as out:
        for item in objects:
            out.write(f"{separator}{json.dumps(item, separators=(',', ':'))}\n")
            results[item["kind"]] += 1
    return results


if __name__ == "__main__":
    sys.exit(main())
