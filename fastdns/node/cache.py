"""The supervisor of a node's cache: sets up Corefile, interface, server and rules, and removes them at the end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fastdns.httpd import endpoint
from fastdns.httpd.message import Reply, Request
from fastdns.node.flags import Flags
from fastdns.node.network import Network
from fastdns.node.signals import Signals
from fastdns.node.template import KubeDNS, TemplateError, read_kube_dns, render
from fastdns.telemetry.log import Log, flush

__all__ = ["NodeCache"]

log = Log()

#: linux/prctl.h
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

#: Seconds between two checks of the ConfigMaps, and of the server and its pidfile.
LOOK_INTERVAL = 1.0
#: Seconds from SIGTERM to SIGKILL of the server; the pod's grace period is shorter as a rule.
STOP_LIMIT = 60.0
KUBE_DNS = "/etc/kube-dns"
#: The server of the container image, where there is no interpreter to run.
IMAGE_SERVER = "/coredns"
METRIC = "coredns_nodecache_setup_errors_total"
ERRORS = ("configmap", "interface_add", "interface_check", "iptables", "iptables_lock")


class NodeCache:
    """One run of the command, from its flags."""

    def __init__(self, flags: Flags, signals: Signals) -> None:
        self.flags = flags
        self.signals = signals
        self.errors = dict.fromkeys(ERRORS, 0)
        self.network = Network(flags, self._count)
        self.cluster = os.environ.get(flags.upstreamsvc.replace("-", "_").upper() + "_SERVICE_HOST") or None
        self.kube_dns_folder = flags.kubednscm or (KUBE_DNS if os.path.isdir(KUBE_DNS) else "")
        self.kube_dns = KubeDNS()
        #: Contents of the ConfigMaps at the last check.
        self.seen: object = None
        self.server: subprocess.Popen[bytes] | None = None

    # ---- life ----

    def run(self) -> int:
        """Serve until a signal, or until the server ends. Returns the exit status."""
        self._open_metrics()
        if self.cluster is None:
            log.warning(f"Unable to lookup IP address of Upstream service {self.flags.upstreamsvc}")
        if self.flags.setupebtables:
            log.warning("-setupebtables has no effect")
        self._remove_pidfile()
        self.update_corefile()
        self.network.ensure_interface()
        try:
            self.server = self._start_server()
            return self._watch(self.server)
        finally:
            if not self.flags.skipteardown:
                self.network.tear_down()
            if self.server is not None:
                self._stop_server(self.server)
            flush()

    def _watch(self, server: subprocess.Popen[bytes]) -> int:
        """The main loop: handles signals, and checks ConfigMaps, server, interface and rules at their intervals."""
        next_look = time.monotonic()
        # With a pidfile the rules are added as soon as it exists, since the server then serves; otherwise after the first interval.
        next_check = next_look + self.flags.interval
        awaited = bool(self.flags.pidfile)
        while True:
            now = time.monotonic()
            number = self.signals.wait(min(next_look, next_check) - now)
            if number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                log.info(f"{signal.Signals(number).name}: tearing down, then ending")
                self._end_signal = signal.Signals(number)
                return 0
            if number == signal.SIGUSR1:
                server.send_signal(signal.SIGUSR1)
            if (status := server.poll()) is not None:
                status = status if status >= 0 else 128 - status
                log.error(f"The server has ended with status {status}")
                return status or 1
            now = time.monotonic()
            if awaited and os.path.isfile(self.flags.pidfile):
                awaited, next_check = False, now
            if now >= next_check or (now >= next_look and self.network.has_gone()):
                self.network.set_up()
                next_check = time.monotonic() + self.flags.interval
            if now >= next_look:
                if self.update_corefile() and self.flags.reloadwithsignal:
                    server.send_signal(signal.SIGUSR1)
                next_look = time.monotonic() + LOOK_INTERVAL

    _end_signal = signal.SIGTERM

    # ---- the server ----

    def _start_server(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "fastdns"] if os.access(sys.executable or "", os.X_OK) else [IMAGE_SERVER]
        command += ["-conf", self.flags.conf, "-dns.port", self.flags.port]
        for flag, value in (("-pidfile", self.flags.pidfile), ("-workers", self.flags.workers), ("-log-format", self.flags.log_format)):
            if value:
                command += [flag, value]
        if self.flags.quiet:
            command.append("-quiet")
        flush()
        return subprocess.Popen(command, preexec_fn=_child)

    def _stop_server(self, server: subprocess.Popen[bytes]) -> None:
        if server.poll() is None:
            server.send_signal(self._end_signal)
            try:
                server.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()

    def _remove_pidfile(self) -> None:
        """Remove the pidfile of an earlier server."""
        if self.flags.pidfile:
            try:
                os.unlink(self.flags.pidfile)
            except OSError:
                pass

    # ---- Corefile ----

    def update_corefile(self) -> bool:
        """Write the Corefile when a ConfigMap has changed. Returns whether it was written. Errors are logged and counted; the next check tries again."""
        try:
            template = Path(self.flags.basecorefile).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return self._config_error(f"Failed to read node-cache coreFile {self.flags.basecorefile} - {error}")
        if self.kube_dns_folder:
            try:
                self.kube_dns = read_kube_dns(Path(self.kube_dns_folder))
            except (OSError, UnicodeDecodeError, TemplateError) as error:
                # The former Corefile stays.
                self._config_error(f"Invalid config: {error}")
        found = template, repr(self.kube_dns)
        if found == self.seen:
            return False
        try:
            text = render(template, self.flags.localip.split(","), self.flags.port, self.cluster, self.kube_dns)
            self._write(text)
        except (OSError, TemplateError) as error:
            return self._config_error(f"Failed to write config file {self.flags.conf} - {error}")
        self.seen, self.complaint = found, ""
        upstreams = " ".join(self.kube_dns.upstreams) or "/etc/resolv.conf"
        log.info(f"Updated Corefile with {len(self.kube_dns.stub_domains)} custom stubdomains and upstream servers {upstreams}")
        log.info(f"Using config file:\n{text}")
        return True

    complaint = ""

    def _config_error(self, text: str) -> bool:
        """Log and count an error once, until another one occurs."""
        if text != self.complaint:
            self.complaint = text
            log.error(text)
            self._count("configmap")
        return False

    def _write(self, text: str) -> None:
        """Replace the Corefile by a rename, so that the server's reload never reads a part of it. Raises OSError."""
        path = Path(self.flags.conf)
        beside = path.with_name(path.name + ".new")
        try:
            beside.write_text(text, "utf-8")
            os.replace(beside, path)
        except OSError:
            # A file that is mounted by itself cannot be replaced.
            path.write_text(text, "utf-8")

    # ---- metrics ----

    def _open_metrics(self) -> None:
        try:
            endpoint.Endpoint(self.flags.metrics, "/metrics", self._page).open()
        except (OSError, ValueError) as error:
            log.error(f"Failed to start metrics handler: {error}")

    def _count(self, kind: str) -> None:
        self.errors[kind] += 1

    def _page(self, request: Request) -> Reply:
        lines = [f"# HELP {METRIC} Errors while the network and the Corefile of the node were set up.", f"# TYPE {METRIC} counter"]
        lines += [f'{METRIC}{{errortype="{kind}"}} {count}' for kind, count in self.errors.items()]
        return Reply(200, ("\n".join(lines) + "\n").encode(), "text/plain; version=0.0.4; charset=utf-8")


def _child() -> None:
    """Runs in the child before exec: the server gets SIGTERM when its parent dies, and has the parent's former signal mask."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    Signals.forget()
