"""One run: native threads send, this thread gathers what they count."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import dns.rcode

from fastdns.bench.generator.generator import Generator
from fastdns.bench.generator.queries import QuerySet
from fastdns.bench.process import Process
from fastdns.bench.request import request_head
from fastdns.bench.result import Interval, Plan, Result, Target

__all__ = ["LoadError", "drive"]

#: Seconds between looks at what the threads have counted.
LOOK = 0.05
#: Seconds that threads get to be ready before the first query leaves.
LEAD = 0.02


class LoadError(Exception):
    """A run that cannot begin: no such host, connections refused, a CPU that may not be used."""


def drive(
    queries: QuerySet,
    target: Target,
    plan: Plan,
    progress: Callable[[Interval], None] | None = None,
    *,
    start: float | None = None,
    stop: threading.Event | None = None,
) -> Result:
    """Sends queries as planned until all are answered or given up.

    `progress` is called about once a second with what the last one brought; `start` is a time (``time.time()``) to begin at; a run that is
    stopped early, by `stop`, gives what it has: queries under way then are neither answered nor lost. LoadError when it cannot begin.
    """
    generators = open_generators(queries, target, plan)
    begin = time.monotonic_ns() + int((max(0.0, start - time.time()) if start is not None else LEAD) * 1e9)
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=work, args=(generator, plan, number, begin, failures), name=f"load-{number}", daemon=True)
        for number, generator in enumerate(generators)
    ]
    gathered = Gathered(queries.label, target, plan, len(generators), progress)
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            if stop is not None and stop.is_set():
                break
            time.sleep(LOOK)
            gathered.look(generators)
    finally:
        for generator in generators:
            generator.stop()
        for thread in threads:
            thread.join()
    if failures:
        raise LoadError(str(failures[0])) from failures[0]
    for generator in generators:
        generator.close()
    early = (time.monotonic_ns() - begin) / 1e9 - plan.warm
    return gathered.finish(generators, min(plan.seconds, max(early, 0.0)))


def open_generators(queries: QuerySet, target: Target, plan: Plan) -> list[Generator | Process]:
    family, address = resolve(target)
    threads = min(plan.threads, plan.clients)
    made: list[Generator | Process] = []
    for number in range(threads):
        clients = plan.clients // threads + (number < plan.clients % threads)
        try:
            options: dict[str, Any] = {
                "transport": target.transport,
                "family": family,
                "address": address,
                "pieces": plan.pieces,
                "clients": clients,
                "window": max(1, plan.window // plan.clients) if plan.closed else 0,
                "timeout": plan.timeout,
                "check": plan.check,
                "random": plan.arrivals == "poisson",
                "seed": plan.seed,
                "thread": number,
                "threads": threads,
                "server_name": target.server_name.encode(),
                "head": request_head(target),
            }
            made.append(Process(queries, target, cpus_of(plan, number), **options) if target.transport == "doq" else Generator(queries, **options))
            made[-1].open(plan.timeout)
        except OSError as error:
            for each in made:
                each.close()
            raise LoadError(f"{target}: {error.strerror or error}") from error
    return made


def cpus_of(plan: Plan, number: int) -> set[int]:
    """CPUs that a thread is pinned to; none: anywhere."""
    return {plan.cpus[number % len(plan.cpus)]} if plan.cpus else set()


def resolve(target: Target) -> tuple[int, bytes]:
    """Address family and the kernel's form of the address."""
    try:
        family, _, _, _, address = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise LoadError(f"{target.host}: {error.strerror or error}") from error
    octets = socket.inet_pton(family, str(address[0]).partition("%")[0])
    packed = struct.pack("=H", family) + struct.pack("!H", target.port)
    if family == socket.AF_INET:
        return family, packed + octets + bytes(8)
    scope = address[3] if len(address) == 4 else 0
    return family, packed + bytes(4) + octets + struct.pack("=I", scope)


def work(generator: Generator | Process, plan: Plan, number: int, begin: int, failures: list[BaseException]) -> None:
    """The body of a thread."""
    try:
        if plan.cpus:
            os.sched_setaffinity(threading.get_native_id(), cpus_of(plan, number))
        generator.run(begin, plan.warm)
    except BaseException as error:
        failures.append(error)


class Gathered:
    """Intervals of all threads, added up."""

    def __init__(self, label: str, target: Target, plan: Plan, threads: int, progress: Callable[[Interval], None] | None) -> None:
        self.result = Result(label, target, plan)
        self.progress = progress
        self.threads = threads
        self.open: dict[float, list[dict[str, Any]]] = {}
        #: Ends of the pieces, in seconds, and what was counted in each.
        self.steps: list[tuple[float, Result]] = []
        end = 0.0
        for rate, seconds in plan.pieces:
            end += seconds
            piece = Plan(seconds=seconds, rate=rate, window=plan.window, clients=plan.clients, threads=plan.threads, timeout=plan.timeout, check=plan.check)
            self.steps.append((end, Result(label, target, piece, seconds=seconds)))

    def look(self, generators: list[Generator | Process]) -> None:
        for generator in generators:
            while (part := generator.take()) is not None:
                self.open.setdefault(round(part["ended"], 6), []).append(part)
        for key in sorted(self.open):
            if len(self.open[key]) == self.threads:
                self.finish_second(key, self.open.pop(key))

    def finish_second(self, second: float, parts: list[dict[str, Any]]) -> None:
        """An interval that all threads have ended."""
        whole = Result(self.result.label, self.result.target, self.result.plan)
        for part in parts:
            whole.add(
                Result(
                    self.result.label,
                    self.result.target,
                    self.result.plan,
                    rcodes={dns.rcode.to_text(dns.rcode.Rcode.make(code)): count for code, count in part["rcodes"].items()},
                    statuses={str(status): count for status, count in part["statuses"].items()},
                    **{name: part[name] for name in COUNTED},
                )
            )
        self.result.add(whole)
        next(step for end, step in self.steps if second <= end + 1e-6).add(whole)
        latency = whole.latency
        length = second - min(part["began"] for part in parts)
        interval = Interval(
            second=second,
            sent=whole.sent,
            answered=whole.answered,
            lost=whole.lost,
            p50=latency.percentile(50),
            p99=latency.percentile(99),
            seconds=length,
            rate=sum(part["rate"] for part in parts),
            wrong=whole.wrongs,
        )
        self.result.intervals.append(interval)
        if self.progress is not None:
            self.progress(interval)

    def finish(self, generators: list[Generator | Process], seconds: float) -> Result:
        self.look(generators)
        for key in sorted(self.open):
            self.finish_second(key, self.open[key])
        self.result.seconds = seconds
        self.result.cpu = sum(generator.cpu_seconds for generator in generators)
        self.result.warmed = sum(generator.warmed for generator in generators)
        self.result.dropped = sum(generator.dropped for generator in generators)
        if len(self.steps) > 1:
            self.result.steps = [step for _, step in self.steps]
        return self.result


COUNTED = ("sent", "answered", "lost", "wrong", "octets", "latency", "unsent", "late", "refused", "resets", "truncated")
