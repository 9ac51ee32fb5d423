"""The supervisor of a node's cache: sets up Corefile, interface, server and rules, keeps the server's sockets, and removes all of it at the end."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path

from fastdns.httpd import endpoint
from fastdns.httpd.message import Reply, Request
from fastdns.node.child import Child
from fastdns.node.flags import Flags
from fastdns.node.handover import Handover
from fastdns.node.network import Network, described
from fastdns.node.signals import Signals
from fastdns.node.store import Notices, Store
from fastdns.node.template import KubeDNS, TemplateError, read_kube_dns, render, template_of
from fastdns.telemetry.log import Log, flush

__all__ = ["NodeCache"]

log = Log()

#: Seconds between two checks of the ConfigMaps, and of the server.
LOOK_INTERVAL = 1.0
#: Seconds from SIGTERM to SIGKILL of the server; the pod's grace period is shorter as a rule.
STOP_LIMIT = 60.0
#: A server that has crashed is started again, while queries wait in its sockets; not when it has crashed so often within so many seconds,
CRASHES_MAX = 3
CRASHES_SECONDS = 10.0
#: and not when it does not serve after so many: clients have given up by then.
RESTART_SECONDS = 10.0
#: Seconds that the end waits for a pod that has taken the sockets and does not serve yet.
HANDOVER_SECONDS = 10.0
KUBE_DNS = "/etc/kube-dns"
#: The server of the container image, where there is no interpreter to run.
IMAGE_SERVER = "/node-server"
METRIC = "coredns_nodecache_setup_errors_total"
ERRORS = ("configmap", "interface_add", "interface_check", "iptables", "iptables_lock")
RESTARTS = "fastdns_node_restarts_total"


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
        self.store = Store()
        self.notices = Notices()
        self.handover: Handover | None = None
        self.server: Child | None = None
        #: Whether a server has served, and until when the one that runs has to.
        self.served, self.deadline = False, float("inf")
        #: When servers have crashed lately, and how many were started again in all.
        self.crashes: list[float] = []
        self.restarts = 0

    # ---- life ----

    def run(self) -> int:
        """Serve until a signal, or until the server ends. Returns the exit status."""
        self._open_metrics()
        if self.cluster is None:
            log.warning(f"Unable to lookup IP address of Upstream service {self.flags.upstreamsvc}")
        if self.flags.setupebtables:
            log.warning("-setupebtables has no effect")
        self.update_corefile()
        self._take_over()
        self.network.ensure_interface()
        try:
            server = self._start_server()
            return self._watch(server)
        finally:
            self._leave_network()
            if self.server is not None:
                self.server.end(self._end_signal, STOP_LIMIT)
            self.notices.close()
            flush()

    def _watch(self, server: Child) -> int:
        """The main loop: handles signals, the server and other pods, and checks ConfigMaps, interface and rules at their intervals."""
        next_look = time.monotonic()
        next_check, end = next_look + self.flags.interval, float("inf")
        while True:
            files = [self.notices.socket.fileno(), *(self.handover.files() if self.handover else ())]
            numbers, ready = self.signals.wait(min(next_look, next_check, end) - time.monotonic(), files)
            now = time.monotonic()
            if self.handover is not None and self.handover.act(ready):
                next_check = now
            if stopped := set(numbers) & set(Signals.ENDS):
                self._end_signal = signal.Signals(stopped.pop())
                log.info(f"{self._end_signal.name}: ending")
                end = min(end, now + HANDOVER_SECONDS)
            if end < float("inf") and (now >= end or self.handover is None or not self.handover.is_awaited):
                return 0
            if signal.SIGUSR1 in numbers:
                server.send_signal(signal.SIGUSR1)
            if self.notices.read(self.store, server.pid):
                self._serve()
                next_check = time.monotonic() + self.flags.interval
            if (status := server.poll()) is not None:
                if not self._may_restart(status, now):
                    return status if status > 0 else 128 - status if status else 1
                server = self._start_server()
            elif now >= self.deadline:
                log.error(f"The server does not serve after {RESTART_SECONDS:g} s")
                self._end_signal = signal.SIGKILL
                return 1
            if now >= next_check or (now >= next_look and self.network.has_gone()):
                self._check_network()
                next_check = time.monotonic() + self.flags.interval
            if now >= next_look:
                if self.update_corefile() and self.flags.reloadwithsignal:
                    server.send_signal(signal.SIGUSR1)
                if self.handover is not None:
                    self.handover.look()
                next_look = time.monotonic() + LOOK_INTERVAL

    _end_signal = signal.SIGTERM

    # ---- the server ----

    def _take_over(self) -> None:
        """Have the sockets of another pod, if there is one."""
        if not self.flags.handover:
            return
        try:
            self.handover = Handover(self.flags.handover, described(self.flags), self.store)
        except OSError as error:
            log.error(f"Sockets are not handed over: {error}")
        else:
            self.handover.take()

    def _serve(self) -> None:
        """The server serves: lead queries to it."""
        self.served, self.deadline = True, float("inf")
        if self.handover is not None:
            self.handover.ownership.join()
        self.network.set_up()
        if self.handover is not None:
            self.handover.serves()

    def _check_network(self) -> None:
        """Put back what others have removed. There are no rules before the server serves."""
        if self.served:
            self.network.set_up()
        else:
            self.network.ensure_interface()

    def _leave_network(self) -> None:
        """Remove interface and rules, unless another pod serves."""
        if self.handover is not None and not self.handover.ownership.leave():
            log.info("Interface and rules are left to another pod")
        elif not self.flags.skipteardown:
            self.network.tear_down()
        if self.handover is not None:
            self.handover.ownership.release()

    def _start_server(self) -> Child:
        self._remove_pidfile()
        command = [sys.executable, "-P", "-m", "fastdns"] if os.access(sys.executable or "", os.X_OK) else [IMAGE_SERVER]
        command += ["-conf", self.flags.conf, "-dns.port", self.flags.port]
        for flag, value in (("-pidfile", self.flags.pidfile), ("-workers", self.flags.workers), ("-log-format", self.flags.log_format)):
            if value:
                command += [flag, value]
        if self.flags.quiet:
            command.append("-quiet")
        flush()
        self.store.begin()
        self.server = Child(command, {**os.environ, "NOTIFY_SOCKET": self.notices.path}, self.store.sockets, self.flags.server_user)
        return self.server

    def _may_restart(self, status: int, now: float) -> bool:
        """Whether a server is started in the place of one that has ended. One that ends by itself has a reason, as *loop* has; a crash is a signal."""
        log.error(f"The server has ended with status {status if status >= 0 else 128 - status}")
        self.crashes = [crash for crash in self.crashes if now - crash < CRASHES_SECONDS] + [now]
        if status >= 0 or not self.served or not self.store.sockets or len(self.crashes) >= CRASHES_MAX:
            return False
        log.info("Starting the server again; queries wait in its sockets")
        self.deadline = now + RESTART_SECONDS
        self.restarts += 1
        return True

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
        path = Path(self.flags.basecorefile)
        try:
            path = template_of(path)
            template = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError, TemplateError) as error:
            return self._config_error(f"Failed to read node-cache coreFile {path} - {error}")
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
        if self.flags.server_user is not None:
            own_alone(path.parent)
        beside = path.with_name(path.name + ".new")
        try:
            write_file(beside, text)
            os.replace(beside, path)
        except OSError:
            # A file that is mounted by itself cannot be replaced.
            write_file(path, text)

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
        lines += [f"# HELP {RESTARTS} Servers that were started again after a crash.", f"# TYPE {RESTARTS} counter", f"{RESTARTS} {self.restarts}"]
        return Reply(200, ("\n".join(lines) + "\n").encode(), "text/plain; version=0.0.4; charset=utf-8")


def own_alone(folder: Path) -> None:
    """Take a folder of this user's from all others, who could replace its files. A volume of a pod is everybody's at first. Raises OSError."""
    status = folder.stat()
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX and status.st_uid == os.geteuid():
        folder.chmod(0o755)


def write_file(path: Path, text: str) -> None:
    """Write a file that everybody may read. A symbolic link in its place is not followed. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
