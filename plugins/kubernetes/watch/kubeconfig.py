"""`kubeconfig FILE [CONTEXT]`: resolved by a short-lived child (kubeconfig_child.py), again when something expires or changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastdns.plugins.kubernetes.watch.connection import Address, Api, ApiConfigError, Followed, make_context
from fastdns.plugins.kubernetes.watch.poller import Signal, readable, sleep

if TYPE_CHECKING:
    import ssl

#: Seconds that the child may take, programs that it runs included.
TIMEOUT = 60.0
#: Credentials are renewed so many seconds before they end.
EARLY = 30.0
#: At most one child in so many seconds when the server goes on refusing.
PAUSE = 5.0

CHILD = Path(__file__).with_name("kubeconfig_child.py")


def parse(output: bytes) -> dict[str, Any]:
    """What the child printed. ApiConfigError for a file that will not do, OSError when credentials could not be had this time."""
    try:
        reply = json.loads(output)
    except ValueError:
        raise OSError("getting credentials: no reply from the child that reads the kubeconfig") from None
    if not isinstance(reply, dict):
        raise OSError("getting credentials: malformed reply from the child that reads the kubeconfig")
    if "error" in reply:
        if reply.get("config"):
            raise ApiConfigError(str(reply["error"]))
        raise OSError(f"getting credentials: {reply['error']}")
    return reply


class Kubeconfig(Api):
    """A context of a kubeconfig. Made without credentials when an exec plugin or an identity provider fails now: they are tried again."""

    def __init__(self, path: str, context: str = "") -> None:
        """Runs the child once. ApiConfigError when the file is missing or will not do."""
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ApiConfigError(f"stat {path}: {(error.strerror or str(error)).lower()}") from None
        self.path, self.name = os.path.abspath(path), context
        self.key = ("kubeconfig", self.path, context)
        self.address = Address("", 0, False, "")
        self.config: dict[str, Any] | None = None
        self.files = Followed()
        self.made: ssl.SSLContext | None = None
        self.tried = 0.0
        #: Wakes those who wait for a child that runs.
        self.resolved: Signal | None = None
        child = self._child()
        try:
            output, _ = child.communicate(timeout=TIMEOUT)
            self._take(output)
        except subprocess.TimeoutExpired:
            self._end(child)
        except OSError:
            pass

    def _child(self) -> subprocess.Popen[bytes]:
        self.tried = time.monotonic()
        return subprocess.Popen(
            [sys.executable, "-P", str(CHILD), self.path, self.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @staticmethod
    def _end(child: subprocess.Popen[bytes]) -> None:
        """Kill it with what it started."""
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def _take(self, output: bytes) -> None:
        config = parse(output)
        self.address = Address.parse(config["server"])
        self.config = config
        self.made = None
        self.files.changed(self.path, *config["files"])

    async def _resolve(self) -> None:
        """Run the child, or wait for the one that runs, without blocking the poller. OSError."""
        if self.resolved is not None:
            await sleep(TIMEOUT, self.resolved)
            if self.config is None:
                raise OSError("getting credentials: the last try failed")
            return
        self.resolved = Signal()
        try:
            await self._run_child()
        finally:
            self.resolved.wake()
            self.resolved = None

    async def _run_child(self) -> None:
        child = self._child()
        output = b""
        until = time.monotonic() + TIMEOUT
        try:
            assert child.stdout is not None  # noqa: S101 - a pipe was asked for
            fd = child.stdout.fileno()
            os.set_blocking(fd, False)
            while True:
                if not await readable(fd, until - time.monotonic()):
                    raise OSError("getting credentials: timed out")
                got = os.read(fd, 65536)
                if not got:
                    break
                output += got
            child.wait()
        finally:
            if child.poll() is None:
                self._end(child)
            child.stdout.close()  # type: ignore[union-attr]
        try:
            self._take(output)
        except ApiConfigError as error:
            raise OSError(str(error)) from None

    async def prepare(self) -> None:
        config = self.config
        if config is None:
            await self._resolve()
            return
        expires = config["expires"]
        expired = expires is not None and config["renewable"] and time.time() > expires - EARLY
        if (expired and time.monotonic() - self.tried > PAUSE) or self.files.changed(self.path, *config["files"]):
            try:
                await self._resolve()
            except OSError:
                if expired and expires < time.time():
                    raise

    async def refused(self) -> bool:
        if self.config is None or time.monotonic() - self.tried < PAUSE:
            return False
        before = (self.config["authorization"], self.config["cert"])
        await self._resolve()
        return (self.config["authorization"], self.config["cert"]) != before

    def authorization(self) -> str | None:
        return self.config["authorization"] or None if self.config else None

    def server_name(self) -> str:
        return (self.config or {}).get("server_name") or self.address.host

    def context(self) -> ssl.SSLContext | None:
        config = self.config
        if config is None or not self.address.tls:
            return None
        if self.made is None:
            context = make_context(ca_data=config["ca"], verify=config["verify"])
            if config["cert"]:
                # ssl reads certificates from files only; these were never meant to lie in one.
                fd = os.memfd_create("client", os.MFD_CLOEXEC)
                try:
                    with open(fd, "wb", closefd=False) as file:
                        file.write(f"{config['cert']}\n{config['key']}".encode())
                    context.load_cert_chain(f"/proc/self/fd/{fd}")
                finally:
                    os.close(fd)
            self.made = context
        return self.made
