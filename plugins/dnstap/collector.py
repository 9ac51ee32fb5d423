"""The way to a collector: a connection that is made anew when it breaks, and a thread that fills it."""

from __future__ import annotations

import socket
import ssl
import threading
import time

from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import STOPPED, TIME, Sender, count_frames
from fastdns.plugins.dnstap.endpoint import Endpoint
from fastdns.telemetry.log import Log

__all__ = ["Collector", "DropReport"]

log = Log("plugin/dnstap")

#: Seconds to connect, and for a write.
TIMEOUT = 4.0
#: Seconds between two reports of dropped messages.
REPORT = 10.0
#: Seconds between two attempts to connect: each waits twice as long as the one before.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
#: Seconds that the process's end waits for messages to leave.
FINISH = 2.0


class DropReport:
    """Tells every ten seconds how many messages were dropped, if any were."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.reported = sender.dropped
        self.next = time.monotonic() + REPORT

    def seconds(self) -> float:
        """Until it is time."""
        return max(0.0, self.next - time.monotonic())

    def look(self) -> None:
        if self.seconds():
            return
        self.next = time.monotonic() + REPORT
        dropped = self.sender.dropped
        if dropped > self.reported:
            log.warning(f"Dropped dnstap messages: {dropped - self.reported:.0f}")
        self.reported = dropped


class Collector:
    """Sends a tap's messages to an endpoint."""

    def __init__(self, sender: Sender, endpoint: Endpoint, skip_verify: bool, buffer: int) -> None:
        """``buffer``: octets that the kernel keeps for a TCP connection."""
        self.sender, self.endpoint, self.skip_verify, self.buffer = sender, endpoint, skip_verify, buffer
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, name="dnstap", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Sends what there is, if it is connected, and ends."""
        self.sender.stop()
        self.stopping.set()

    def finish(self) -> None:
        """`stop`, and wait for it."""
        self.stop()
        if self.thread.ident is not None:
            self.thread.join(FINISH)

    def _run(self) -> None:
        report = DropReport(self.sender)
        pause, logged = 0.0, False
        while True:
            begun = time.monotonic()
            try:
                with self._connect() as connection:
                    logged = False
                    self._serve(connection, report)
            except OSError as error:
                if not logged and not self.stopping.is_set():
                    log.error(f"No connection to dnstap endpoint: {error}")
                logged = True
            lived = time.monotonic() - begun
            pause = FIRST_PAUSE if lived > LONGEST_PAUSE else min(2 * pause or FIRST_PAUSE, LONGEST_PAUSE)
            end = time.monotonic() + pause
            while (left := end - time.monotonic()) > 0 or self.stopping.is_set():
                if self.stopping.wait(min(left, report.seconds() + 0.01)):
                    return
                report.look()

    def _connect(self) -> socket.socket:
        connection = self.endpoint.connect(TIMEOUT)
        try:
            if self.endpoint.protocol != "unix":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, min(self.buffer, 0x7FFFFFFF))
            if self.endpoint.protocol == "tls":
                connection = self._secure(connection)
            frames.begin(connection)
        except TimeoutError:
            connection.close()
            raise OSError(f"read {self.endpoint.network} {self.endpoint.place}: i/o timeout") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _secure(self, connection: socket.socket) -> ssl.SSLSocket:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        try:
            return context.wrap_socket(connection, server_hostname=self.endpoint.host or "localhost")
        except ssl.SSLCertVerificationError as error:
            raise OSError(f"tls: failed to verify certificate: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise OSError(f"tls: {error.reason or error}") from None

    def _serve(self, connection: socket.socket, report: DropReport) -> None:
        """Until the tap is stopped or the connection breaks."""
        if isinstance(connection, ssl.SSLSocket):
            if not self._copy(connection, report):
                return
        else:
            connection.setblocking(False)
            status = TIME
            while status == TIME:
                status = self.sender.pump(connection.fileno(), report.seconds())
                report.look()
            if status != STOPPED:
                return
        frames.end(connection, 1.0)

    def _copy(self, connection: ssl.SSLSocket, report: DropReport) -> bool:
        """What `Sender.pump` does, for TLS; False when the connection broke."""
        while (octets := self.sender.take(report.seconds())) is not None:
            report.look()
            try:
                if octets:
                    connection.sendall(octets)
            except OSError:
                self.sender.count_dropped(count_frames(octets))
                return False
        return True
