"""health: the liveness page, a look at it every second, and lame duck at the end."""

from __future__ import annotations

import socket
import threading
import time

from fastdns.corefile import CorefileError
from fastdns.corefile.address import join_host_port, split_address
from fastdns.httpd.endpoint import HEALTH, Endpoint, page_address
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/health")

ADDRESS = ":8080"
#: Seconds between two looks, and of patience with one.
INTERVAL = 1.0
TIMEOUT = 3.0

duration = Metric(
    "coredns_health_request_duration_seconds",
    "Histogram of the time (in seconds) each request took.",
    "histogram",
    (),
    (0.00025, 0.0025, 0.025, 0.25, 2.5),
    1e9,
)
failures = Metric("coredns_health_request_failures_total", "The number of times the health check failed.", "counter")


def setup(controller: Controller) -> None:
    """``health [ADDRESS] { lameduck DURATION }``"""
    address, lameduck = parse(controller)
    check = Check(address)
    Endpoint(address, "/health", HEALTH).follow(controller)
    controller.on_started(check.start, whole=True)
    controller.on_shutdown(check.stop)
    if lameduck:
        controller.on_final_shutdown(lambda: wait(lameduck), max(0.0, controller.duration(lameduck) / 1e9))


def parse(controller: Controller) -> tuple[str, str]:
    """Address, and the lame duck's duration as text ("" for none)."""
    address, lameduck = ADDRESS, ""
    while controller.next():
        address = page_address(controller, address)
        while controller.next_block():
            if controller.val() != "lameduck":
                raise controller.err(f"unknown property '{controller.val()}'")
            lameduck = controller.one_arg()
            try:
                controller.duration(lameduck)
            except ValueError as error:
                raise CorefileError(f"unable to parse lameduck duration value: '{lameduck}' : {error}") from None
    return address, lameduck


def wait(lameduck: str) -> None:
    """Goes on serving while the cluster takes notice that this server leaves."""
    from fastdns.corefile.duration import parse_duration

    seconds = parse_duration(lameduck) / 1e9
    if seconds <= 0:
        return
    log.info(f"Going into lameduck mode for {lameduck}")
    time.sleep(seconds)


class Check:
    """Asks the page every second: a slow answer means that the machine or the interpreter is overloaded."""

    def __init__(self, address: str) -> None:
        host, port = split_address(address)
        self.host, self.port = host or "localhost", port
        self.stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self.run, name="health", daemon=True).start()

    def stop(self) -> None:
        self.stopped.set()

    def run(self) -> None:
        while not self.stopped.wait(INTERVAL):
            start = time.monotonic()
            try:
                self.ask()
            except OSError as error:
                if not self.stopped.is_set():
                    failures.add(())
                    log.warning(f'Local health request to "{self.url}" failed: {error}')
                continue
            took = time.monotonic() - start
            duration.observe((), took)
            if took > 1:
                log.warning(f'Local health request to "{self.url}" took more than 1s: {took:.6f}s')

    @property
    def url(self) -> str:
        return f"http://{join_host_port(self.host, self.port)}/health"

    def ask(self) -> None:
        with socket.create_connection((self.host, self.port), TIMEOUT) as connection:
            host = join_host_port(self.host, self.port)
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            if not connection.recv(4096):
                raise ConnectionError("EOF")
