"""Certificates by ACME: ordered when there is none, renewed in time, and the challenges of orders answered meanwhile.

A manager belongs to the process. Configurations hold it, so that a reload neither ends an order nor takes its challenges away. The certificate reaches the
contexts of TLS by a copy in memory (`copied`), and files of the storage are touched by its own thread alone (`storage_thread`).
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastdns
from fastdns import control
from fastdns._wire import name_wire
from fastdns.control.eventloop import Task
from fastdns.index.index import Index
from fastdns.plugins.tls.copied import copy_of
from fastdns.plugins.tls.options import AcmeOptions
from fastdns.plugins.tls.storage import Storage
from fastdns.plugins.tls.storage_thread import StorageHangs, thread_of
from fastdns.telemetry import events
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric
from fastdns.tls.context import ServerContext
from fastdns.tls.stores import system_store

__all__ = ["CHALLENGES", "Manager", "hold", "release"]

TXT = 16
#: A certificate is renewed when this share of its life is left, or up to a tenth of that before: so that replicas and restarts do not come all at once.
LIFE_LEFT = 1 / 3
JITTER = 0.1
#: Seconds between two looks at the certificate at most: clocks change, and another process may have renewed it.
LOOK_SECONDS = 3600.0
#: Seconds between two attempts to get the lock, and between two looks at the challenges of other processes.
POLL_SECONDS = 1.0
#: Seconds from the publication of challenges until the CA is told: others with the same storage have looked by then.
PUBLISH_SECONDS = 1.5
#: Seconds to the attempt after the first failure, and those that they double up to: where the CA did not answer, and where it did. CAs count failures, and
#: one that was away must not be waited for much longer than it was: the certificate may have expired meanwhile.
RETRY_UNANSWERED = 2.0, 600.0
RETRY_ANSWERED = 60.0, 6 * 3600.0
#: What is added to them at random, of their length.
RETRY_JITTER = 0.25

NOT_AFTER = Metric("fastdns_tls_acme_not_after_timestamp_seconds", "When the certificate of these domains expires.", "gauge", ("domains",))
ORDERED = Metric("fastdns_tls_acme_certificates_total", "Counter of certificates that were obtained by ACME.", "counter", ("domains",))
FAILURES = Metric("fastdns_tls_acme_failures_total", "Counter of attempts to obtain a certificate that failed.", "counter", ("domains",))

log = Log("plugin/tls")

#: Threads that wait for CAs. Processes that order have their niceness.
POOL = control.Pool("acme", 4, control.NICENESS)


class OrderError(Exception):
    """No certificate came."""

    def __init__(self, text: str, answered: bool) -> None:
        super().__init__(text)
        #: The CA has answered.
        self.answered = answered
        #: Until the next attempt, where the storage has it.
        self.seconds = 0.0


class Challenges:
    """The TXT records that CAs ask for, of all managers. From any thread."""

    def __init__(self) -> None:
        self.index = Index(flat=True)
        self._values: dict[str, dict[str, list[str]]] = {}
        self._lock = threading.Lock()

    def replace(self, manager: str, values: dict[str, list[str]]) -> None:
        """All those that a manager knows: values by name. Names that are none are left out."""
        with self._lock:
            self._values[manager] = values
            merged: dict[bytes, set[bytes]] = {}
            for name, texts in ((name, texts) for values in self._values.values() for name, texts in values.items()):
                try:
                    merged.setdefault(name_wire(name).lower(), set()).update(text.encode("ascii") for text in texts if 0 < len(text) < 256)
                except ValueError:
                    continue
            self.index.replace((name, [(TXT, 0, bytes([len(text)]) + text) for text in sorted(texts)]) for name, texts in merged.items() if texts)


CHALLENGES = Challenges()


class Manager:
    """Keeps the certificate of one directive current, from `begin` to `end`."""

    def __init__(self, options: AcmeOptions) -> None:
        self.options = options
        self.storage = Storage(options)
        self.thread = thread_of(options.storage)
        self._copy = copy_of(self.storage.certificate, self.thread)
        self.holders = 0
        self._names = " ".join(options.domains)
        self._jitter = random.uniform(0, JITTER)
        #: Since the last certificate, without those that the storage has.
        self._failures = 0
        #: As often the CA has refused a certificate, where the storage cannot be written.
        self._refusals = 0
        self._postponed = 0.0
        #: Key and certificates that could not be saved yet: CAs limit how many they give.
        self._unsaved = ""
        self._task: Task | None = None
        self._timers: list[control.Timer] = []
        self._order: subprocess.Popen[str] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Further calls do nothing."""
        if self._task is None:
            look = partial(self.thread.run, self.look)
            self._timers = [control.every(POLL_SECONDS, look, self.thread.pool), control.every(POLL_SECONDS, self.thread.hangs)]
            self._task = control.keep(self._keep, f"the certificate of {self._names}")

    def end(self) -> None:
        """An order in progress is given up."""
        with self._lock:
            self._ended = True
            if self._order is not None:
                self._order.kill()
        for running in (self._task, *self._timers):
            if running is not None:
                running.cancel()
        CHALLENGES.replace(self.storage.certificate, {})
        NOT_AFTER.forget((self._names,))

    def look(self) -> None:
        """Answer the challenges that the storage has, and use its certificate. On the storage's thread."""
        self._copy.look()
        try:
            found = self.storage.changed_challenges()
        except OSError as error:
            log.debug(f"{self.storage.folder}: {error}")
            return
        if found is not None and not self._ended:  # `end` may have come meanwhile, while the storage did not answer
            CHALLENGES.replace(self.storage.certificate, found)

    # ---- on a thread of their own: a CA may take its time ----

    async def _keep(self) -> None:
        while True:
            await control.sleep(await POOL.run(self._step))

    def _step(self) -> float:
        """Order a certificate if it is time. Seconds until the next step."""
        try:
            self.thread.call(self.storage.prepare)
            seconds = self._seconds_left()
            if seconds <= 0:
                with self._locked() as mine:
                    if not mine:
                        return POLL_SECONDS
                    seconds = self._seconds_left()  # another one may have renewed it by now
                    if seconds <= 0 and not self._unsaved and (wait := self._wait()) > 0:
                        return wait
                    if seconds <= 0:
                        seconds = self._obtain()
        except StorageHangs:  # its thread has logged it
            return POLL_SECONDS
        except Exception as error:
            return self._failed(error)
        self._failures = self._refusals = 0
        self._unsaved = ""
        return min(max(seconds, POLL_SECONDS), LOOK_SECONDS)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        """False: another one has the lock. Where the storage hangs, the lock is given back once it answers."""
        lock = self.storage.lock()
        try:
            yield self.thread.call(lock.take)
        finally:
            self.thread.post(lock.release)

    def _seconds_left(self) -> float:
        """Until a new certificate has to be ordered; 0 and less: now."""
        try:
            begin, end = self.thread.call(_validity, self.storage.certificate)
        except FileNotFoundError:
            return 0.0
        except ValueError as error:
            log.warning(f"{self.storage.certificate} cannot be used: {error}")
            return 0.0
        NOT_AFTER.set((self._names,), end)
        return end - (end - begin) * LIFE_LEFT * (1 + self._jitter) - time.time()

    def _wait(self) -> float:
        """Seconds until the CA may be asked again, after a failure of this process, a former one or another one with the same storage."""
        count, again = self.thread.call(self.storage.failed)
        seconds = again - time.time()
        if not seconds <= RETRY_ANSWERED[1] * (1 + RETRY_JITTER):  # the clock of whoever wrote it was wrong, or this one is
            seconds = _delay(RETRY_ANSWERED, max(count - 1, 0))
            again = time.time() + seconds
            self.thread.call(self.storage.save_failed, count, again)
        if seconds > 0 and again != self._postponed:
            log.info(
                f"The last order for {self._names} failed; the next one is in {seconds:.0f}s. To order at once, delete {self.storage.failures} and restart"
            )
        self._postponed = again
        return min(seconds, LOOK_SECONDS)

    def _failed(self, error: Exception) -> float:
        if self._ended:
            return LOOK_SECONDS
        seconds = error.seconds if isinstance(error, OrderError) else 0.0
        if not seconds:
            seconds = _delay(RETRY_UNANSWERED, self._failures)
            self._failures += 1
        FAILURES.add((self._names,))
        log.error(f"No certificate for {self._names} from {self.options.ca}: {error}; next attempt in {seconds:.0f}s")
        return seconds

    # ---- by whoever holds the storage's lock ----

    def _obtain(self) -> float:
        """As `_seconds_left` of what is saved. Raises OrderError, OSError."""
        if not self._unsaved:
            self._order_one()
        if not self._unsaved:  # it has ended before
            return LOOK_SECONDS
        try:
            self.thread.call(self.storage.save_certificate, self._unsaved.encode("ascii"), _validity)
        except ValueError as error:
            self._unsaved = ""
            raise self._refused(OrderError(f"the certificate cannot be used: {error}", True)) from None
        self._unsaved = ""
        ORDERED.add((self._names,))
        events.note("certificate", self._names, f"obtained from {self.options.ca}")
        begin, end = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in self.thread.call(_validity, self.storage.certificate))
        log.info(f"Certificate for {self._names} obtained, valid until {end}")
        seconds = self._seconds_left()
        if seconds <= 0:  # nor would the next one be any better
            raise self._refused(OrderError(f"the certificate is valid from {begin} to {end}, so it is to be renewed at once; is the clock right?", True))
        self.thread.call(self.storage.forget_failed)
        return seconds

    def _order_one(self) -> None:
        """Sets `_unsaved`. Raises OrderError, OSError."""
        log.info(f"Ordering a certificate for {self._names} from {self.options.ca}")
        self._publish({})  # what a process left that was killed
        with self._lock:
            if self._ended:
                return
            command = [sys.executable, "-P", str(Path(__file__).with_name("order.py"))]
            self._order = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self._unsaved = self._converse(self._order)
        except OrderError as error:
            raise self._refused(error) if error.answered and not self._ended else error from None
        except StorageHangs as error:  # counts as a failure: a storage that hangs in each order must not make the CA see one after the other
            raise OrderError(str(error), False) from None
        finally:
            self._order.kill()
            self._order.communicate()
            with self._lock:
                self._order = None
            with contextlib.suppress(StorageHangs):  # the next order removes them, and what the CA said counts
                self._publish({})

    def _refused(self, error: OrderError) -> OrderError:
        """The error with its time, which all processes with this storage are told."""
        count = self._refusals
        try:
            count = max(count, self.thread.call(self.storage.failed)[0])
            error.seconds = _delay(RETRY_ANSWERED, count)
            self._postponed = time.time() + error.seconds
            self.thread.call(self.storage.save_failed, count + 1, self._postponed)
        except OSError as problem:
            error.seconds = error.seconds or _delay(RETRY_ANSWERED, count)
            log.warning(f"{self.storage.failures}: {problem}")
        self._refusals = count + 1
        return error

    def _converse(self, order: subprocess.Popen[str]) -> str:
        """Give the order its task and what it asks for. Key and certificates. Raises OrderError, OSError."""
        self._tell(order, self._task_of())
        for line in order.stdout:  # type: ignore[union-attr]
            message = json.loads(line)
            if "account" in message:
                self.thread.call(self.storage.save_account, message["account"])
                self._tell(order, {})
            elif "challenges" in message:
                self._publish(message["challenges"])
                time.sleep(PUBLISH_SECONDS)
                self._tell(order, {})
            elif "error" in message:
                raise OrderError(message["error"], message["answered"])
            else:
                return str(message["certificate"])
        raise OrderError(f"the process that orders ended with status {order.wait()}", True)

    @staticmethod
    def _tell(order: subprocess.Popen[str], message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and its output says why
            order.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
            order.stdin.flush()  # type: ignore[union-attr]

    def _task_of(self) -> dict[str, Any]:
        options = self.options
        return {
            "domains": options.domains,
            "email": options.email,
            "ca": options.ca,
            "ca_root": options.ca_root,
            "resolver": options.resolver,
            "store": system_store(),
            "account": self.thread.call(self.storage.account),
            "user_agent": f"fastdns/{fastdns.__version__}",
        }

    def _publish(self, values: dict[str, list[str]]) -> None:
        self.thread.call(self.storage.publish, values)
        self.thread.call(self.look)


def _delay(seconds: tuple[float, float], failures: int) -> float:
    """Seconds until the attempt after so many former failures."""
    first, most = seconds
    return min(first * 2.0 ** min(failures, 16), most) * random.uniform(1, 1 + RETRY_JITTER)


def _validity(path: str) -> tuple[int, int]:
    """From when to when a certificate is valid, in seconds since 1970. Raises OSError, ValueError for one that cannot be used."""
    return ServerContext(path, path).validity or (0, 0)


_managers: dict[tuple[object, ...], Manager] = {}


def hold(options: AcmeOptions) -> Manager:
    """The process's manager for these options, for a configuration that is about to serve; `release` it. On the main thread."""
    manager = _managers.setdefault(options.identity, Manager(options))
    manager.holders += 1
    return manager


def release(manager: Manager) -> None:
    """The configuration no longer serves. The last one ends the manager."""
    manager.holders -= 1
    if not manager.holders:
        _managers.pop(manager.options.identity, None)
        manager.end()
