"""Programs that print credentials: exec plugins (client.authentication.k8s.io), and the gcp provider's cmd-path."""

from __future__ import annotations

import base64
import datetime
import json
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastdns.control import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastdns.plugins.kubernetes.watch.clientcmd import Cluster, ExecConfig

#: Seconds that a program may take.
TIMEOUT = 60.0
#: Octets that it may print.
OUTPUT_MAX = 1 << 20
#: Octets kept of what it writes to its standard error, for the error message.
ERRORS_KEPT = 1024
#: Seconds between looks at a program where the kernel gives no descriptor of a process.
LOOK = 0.05


@dataclass(frozen=True)
class Credential:
    """What a request carries."""

    #: The Authorization header, "" for none.
    authorization: str = ""
    #: A client certificate with its key in PEM, "" for none.
    certificate: str = ""
    #: Unix time at which both end, None for never.
    expires: float | None = None


class NoProgram(OSError):
    """There is no such program, or it is not executable."""


def bearer(token: str) -> str:
    """The Authorization header of a token. OSError for one that no header can carry."""
    text = token.strip()
    if not text or not text.isprintable():
        raise OSError("the token is empty or has control characters")
    return f"Bearer {text}"


def unix_time(text: object) -> float:
    """A time stamp of RFC 3339. ValueError."""
    if not isinstance(text, str):
        raise ValueError("a string is expected")
    found = datetime.datetime.fromisoformat(text)
    return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()


# ---- running ----


async def run(words: Sequence[str], env: dict[str, str], folder: str) -> bytes:
    """What a program prints, when it ends well. OSError otherwise, or after TIMEOUT seconds; it is killed then with all that it started.

    It gets no descriptor of ours and an empty standard input. Only for the control side's loop, which goes on meanwhile.
    """
    try:
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env, start_new_session=True)
    except (FileNotFoundError, PermissionError):
        raise NoProgram(f"exec: executable {words[0]} not found") from None
    except OSError as error:
        raise OSError(f"exec: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:  # a NUL, or a variable with "=" in its name
        raise OSError(f"exec: {error}") from None
    with child:
        try:
            output, errors = await _read(child, words[0])
        finally:
            if child.poll() is None:
                _kill(child)
    if child.returncode:
        text = " ".join(errors.decode("utf-8", "replace").split())
        raise OSError(f"exec: executable {words[0]} failed with exit code {child.returncode}" + (f": {text}" if text else ""))
    return output


def _kill(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


async def _read(child: subprocess.Popen[bytes], name: str) -> tuple[bytes, bytes]:
    """Standard output and the end of standard error, until the program ends. What it left running may keep both open."""
    assert child.stdout is not None  # noqa: S101 - pipes were asked for
    assert child.stderr is not None  # noqa: S101
    out, err = child.stdout.fileno(), child.stderr.fileno()
    written = {out: b"", err: b""}
    unended = {out, err}
    try:
        process = os.pidfd_open(child.pid)
    except OSError:
        process = -1
    with select.epoll() as poll:
        try:
            for fd in (out, err, process):
                if fd >= 0:
                    poll.register(fd, select.EPOLLIN)
            os.set_blocking(out, False)
            os.set_blocking(err, False)
            until = time.monotonic() + TIMEOUT
            ended = False
            while not ended:
                left = until - time.monotonic()
                if left <= 0:
                    raise OSError(f"exec: executable {name} did not end within {TIMEOUT:.0f} s")
                await readable(poll.fileno(), left if process >= 0 else min(left, LOOK))
                ended = child.poll() is not None
                for fd in tuple(unended):
                    if not _take(fd, written, ended):
                        poll.unregister(fd)
                        unended.discard(fd)
                if len(written[out]) > OUTPUT_MAX:
                    raise OSError(f"exec: executable {name} printed more than {OUTPUT_MAX} octets")
                written[err] = written[err][-ERRORS_KEPT:]
        finally:
            if process >= 0:
                os.close(process)
    return written[out], written[err]


def _take(fd: int, written: dict[int, bytes], all_of_it: bool) -> bool:
    """Read what there is, one buffer or up to what a pipe holds; False at the end of file."""
    for _ in range(16 if all_of_it else 1):
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        written[fd] += data
    return True


# ---- ExecCredential ----


async def credential(config: ExecConfig, cluster: Cluster) -> Credential:
    """Ask an exec plugin. OSError."""
    env = {**os.environ, **dict(config.env), "KUBERNETES_EXEC_INFO": exec_info(config, cluster)}
    try:
        return parse(config, await run([config.command, *config.args], env, config.folder))
    except NoProgram as error:
        hint = " ".join("".join(one if one.isprintable() else " " for one in config.install_hint).split())
        raise OSError(f"{error}; {hint}" if hint else str(error)) from None


def exec_info(config: ExecConfig, cluster: Cluster) -> str:
    """KUBERNETES_EXEC_INFO: an ExecCredential with what the plugin may know. OSError when the CA is not readable."""
    spec: dict[str, Any] = {"interactive": False}
    if config.provide_cluster_info:
        try:
            ca = cluster.ca.read()
        except (OSError, UnicodeDecodeError) as error:
            raise OSError(f"failed to load CA bundle for execProvider: {error}") from None
        known = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": not cluster.verify,
            "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "config": cluster.exec_config,
        }
        spec["cluster"] = {key: value for key, value in known.items() if value or key == "server"}
    try:
        return json.dumps({"kind": "ExecCredential", "apiVersion": config.api_version, "spec": spec})
    except (TypeError, ValueError, RecursionError) as error:
        raise OSError(f"encode ExecCredentials: {error}") from None


def parse(config: ExecConfig, output: bytes) -> Credential:
    """The credential that a plugin printed. OSError with client-go's texts."""
    try:
        printed = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise OSError(f"decoding stdout: {error}") from None
    if not isinstance(printed, dict) or printed.get("kind") != "ExecCredential":
        raise OSError("decoding stdout: no ExecCredential")
    version = printed.get("apiVersion")
    if version != config.api_version:
        raise OSError(f"exec plugin is configured to use API version {config.api_version}, plugin returned version {version}")
    status = printed.get("status")
    if not isinstance(status, dict):
        raise OSError("exec plugin didn't return a status field")
    token, certificate, key = (status.get(name) or "" for name in ("token", "clientCertificateData", "clientKeyData"))
    if not (isinstance(token, str) and isinstance(certificate, str) and isinstance(key, str)):
        raise OSError("decoding stdout: token, clientCertificateData and clientKeyData must be strings")
    if not (token or certificate or key):
        raise OSError("exec plugin didn't return a token or cert/key pair")
    if bool(certificate) != bool(key):
        raise OSError("exec plugin returned only certificate or key, not both")
    expires = None
    if status.get("expirationTimestamp") is not None:
        try:
            expires = unix_time(status["expirationTimestamp"])
        except (ValueError, OverflowError) as error:
            raise OSError(f"decoding stdout: expirationTimestamp: {error}") from None
    return Credential(bearer(token) if token else "", f"{certificate}\n{key}" if certificate else "", expires)
