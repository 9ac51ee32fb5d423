"""The other way round: collectors connect to us, any number of them.

A `Hub` belongs to an address and stays over reloads, with all who are connected; the configurations' taps hand it what they have.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading

from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import Sender
from fastdns.plugins.dnstap.collector import FINISH, REPORT, TIMEOUT, DropReport
from fastdns.plugins.dnstap.endpoint import Endpoint, describe
from fastdns.telemetry.log import Log

__all__ = ["Certificates", "Hub", "Listener"]

log = Log("plugin/dnstap")

#: Seconds that one write to a collector may take before it is disconnected.
PATIENCE = 1.0
#: Collectors that are shaking hands at one time.
HANDSHAKES = 32


class Certificates:
    """What ``tls CERT KEY [CA]`` and ``skipverify`` say."""

    def __init__(self, files: tuple[str, ...] = (), skip_verify: bool = False) -> None:
        self.files = files
        self.skip_verify = skip_verify

    def context(self) -> ssl.SSLContext:
        """Raises OSError (ssl.SSLError)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.files[0], self.files[1])
        if len(self.files) > 2:
            context.load_verify_locations(self.files[2])
            context.verify_mode = ssl.CERT_OPTIONAL if self.skip_verify else ssl.CERT_REQUIRED
        return context


class Hub:
    """A listening address and the collectors that came there."""

    def __init__(self, endpoint: Endpoint, certificates: Certificates) -> None:
        self.endpoint = endpoint
        self.context = certificates.context() if endpoint.protocol == "tls" else None
        self.senders: list[Sender] = []
        self.collectors: list[socket.socket] = []
        self.lock = threading.Lock()
        self.shaking = threading.Semaphore(HANDSHAKES)
        self.socket = endpoint.listen()
        self.inode = os.stat(endpoint.place).st_ino if endpoint.protocol == "unix" else 0
        self.closed = False
        threading.Thread(target=self._accept, name="dnstap listener", daemon=True).start()

    def close(self) -> None:
        self.closed = True
        self.socket.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self.socket.close()
        if self.inode:
            try:
                if os.stat(self.endpoint.place).st_ino == self.inode:
                    os.unlink(self.endpoint.place)
            except OSError:
                pass  # somebody else's by now
        for collector in self.collectors:
            try:
                frames.end(collector, PATIENCE)
            except OSError:
                pass
            collector.close()
        self.collectors.clear()

    def join(self, sender: Sender) -> None:
        with self.lock:
            self.senders.append(sender)
            sender.want(bool(self.collectors))

    def leave(self, sender: Sender) -> bool:
        """Whether he was the last."""
        with self.lock:
            self.senders.remove(sender)
            return not self.senders

    def send(self, octets: bytes) -> None:
        """To all; who does not take it is disconnected."""
        with self.lock:
            for collector in list(self.collectors):
                try:
                    collector.sendall(octets)
                except OSError:
                    collector.close()
                    self.collectors.remove(collector)
            self._want()

    def _want(self) -> None:
        for sender in self.senders:
            sender.want(bool(self.collectors))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError as error:
                if self.closed:
                    return
                log.warning(f"Error accepting dnstap connection: {describe(error)}")
                threading.Event().wait(0.1)
                continue
            if not self.shaking.acquire(blocking=False):
                connection.close()
                continue
            try:
                threading.Thread(target=self._welcome, args=(connection,), name="dnstap handshake", daemon=True).start()
            except RuntimeError as error:  # no thread can be started
                self.shaking.release()
                connection.close()
                log.warning(f"Error accepting dnstap connection: {error}")

    def _welcome(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(TIMEOUT)
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            frames.begin(connection)
            connection.settimeout(PATIENCE)
        except OSError as error:
            connection.close()
            log.warning(f"Error creating encoder for dnstap client: {describe(error)}")
            return
        finally:
            self.shaking.release()
        with self.lock:
            self.collectors.append(connection)
            self._want()


_lock = threading.Lock()
_hubs: dict[tuple[Endpoint, tuple[str, ...], bool], Hub] = {}


class Listener:
    """Hands a tap's messages to whoever has connected."""

    def __init__(self, sender: Sender, endpoint: Endpoint, certificates: Certificates) -> None:
        self.sender, self.endpoint, self.certificates = sender, endpoint, certificates
        self.key = (endpoint, certificates.files, certificates.skip_verify)
        self.thread: threading.Thread | None = None
        sender.want(False)

    def start(self) -> None:
        if self.endpoint.protocol == "tls" and not self.certificates.files:
            log.warning("TLS listener requires cert and key files")
            return
        try:
            with _lock:
                if self.key not in _hubs:
                    _hubs[self.key] = Hub(self.endpoint, self.certificates)
                hub = _hubs[self.key]
                hub.join(self.sender)
        except OSError as error:
            log.error(f"Failed to start dnstap listener: {describe(error)}")
            return
        self.thread = threading.Thread(target=self._run, args=(hub,), name="dnstap", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Sends what there is, and ends."""
        self.sender.stop()

    def finish(self) -> None:
        """`stop`, and wait for it."""
        self.stop()
        if self.thread is not None:
            self.thread.join(FINISH)

    def _run(self, hub: Hub) -> None:
        report = DropReport(self.sender)
        while (octets := self.sender.take(REPORT)) is not None:
            if octets:
                hub.send(octets)
            report.look()
        with _lock:
            if hub.leave(self.sender):
                del _hubs[self.key]
                hub.close()
