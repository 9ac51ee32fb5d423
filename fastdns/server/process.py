"""The server process: start, signals, reloads, shutdown, and the upgrade to a new binary."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fastdns import control as control_plane
from fastdns.control import forking
from fastdns.control.collection import Collector
from fastdns.corefile import left_out
from fastdns.corefile.errors import CorefileError, defect, system_error
from fastdns.server import activation, upgrade
from fastdns.server.canary import RULES, Canary, Judged, Rules
from fastdns.server.configuration import Configuration, run_hooks
from fastdns.server.flags import Flags
from fastdns.server.instance import Instance
from fastdns.server.source import Source, find
from fastdns.setup.config import Hook
from fastdns.setup.guard import call
from fastdns.system import debug, memory
from fastdns.system.host import cpu_count
from fastdns.system.thread import hold_priority, release_priority
from fastdns.telemetry import events
from fastdns.telemetry.events import log_event
from fastdns.telemetry.log import Log, failure, flush, is_json, set_debug, write

if TYPE_CHECKING:
    from fastdns.engine.chains import Chains
    from fastdns.engine.engine import Engine
    from fastdns.engine.storms import Storms

__all__ = ["Process", "RestartError"]

log = Log()

#: Seconds that the end of the process waits for queries in progress.
STOP_SECONDS = 5.0
#: Seconds that the end of the process waits for coroutines of the control plane.
CONTROL_SECONDS = 1.0
WORKERS_DEFAULT_MAX = 8

EXIT_STOP_FAILED = 3
EXIT_CALLBACK_FAILED = 4


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to the hard limit, as Go does: connections soon exhaust the usual 1,024."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        pass  # the limit stays; when it is reached no connections are accepted


class RestartError(Exception):
    """The new configuration was rejected; the former one continues to serve."""


class Process:
    """The state of the server process. Methods other than `run` may be called from any thread."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        #: What was loaded last, whether it could be served or not.
        self.source: Source | None = None
        #: The configuration that serves; None before the start.
        self.instance: Instance | None = None
        self.engine: Engine | None = None
        #: The configuration that serves a share of the clients beside it; None: there is none.
        self.canary: Canary | None = None
        #: Checksum of the configuration that was tried last: *reload* does not try it again until the Corefile changes.
        self.tried = ""
        #: While the first configuration is set up, unless another process has been serving until now.
        self.first_start = False
        self._storms: Storms | None = None
        self._collector = Collector()
        self._remove_control_socket: Callable[[], None] = lambda: None
        self._restarting = threading.Lock()
        self._ending = threading.Lock()
        self._stopping = threading.Event()
        self._hurried = threading.Event()
        #: The start is complete.
        self._serving = threading.Event()

    # ---- start ----

    def run(self) -> int:
        """Serve until a signal ends the process. Returns the exit status when the start fails."""
        from fastdns.server import signals

        if is_json():
            events.watch(log_event)
        raise_descriptor_limit()
        memory.give_back_large()
        inherited, given = upgrade.inherit(), activation.given()
        try:
            self.source = inherited.source if inherited else find(self.flags.conf, self.flags.port)
            signals.install(self)
            hold_priority(self)
            control_plane.hold()
            self._start(self.source, inherited, given)
        except Exception as error:
            foreseen = isinstance(error, (CorefileError, OSError, ValueError, RuntimeError))
            flush()
            sys.stderr.write(failure([_text(error) if foreseen else defect(error), *_frames(error)]))
            sys.stderr.flush()
            return 1
        finally:
            release_priority(self)
            gc.enable()
        if self._storms is not None:
            signals.wait(self._storms.look, self._storms.INTERVAL)
        return 0

    def _start(self, source: Source, inherited: upgrade.Inheritance | None, given: activation.Given | None) -> None:
        self.first_start = inherited is None
        instance = Instance(Configuration(source, self.flags.port, self))
        set_debug(instance.debug)
        try:
            instance.configuration.start(self.first_start)
            if not instance.servers:
                # Only unix:// keys, or all addresses excluded: there is nothing to serve.
                from fastdns.server import banner

                self._print(banner.version())
                flush()
                return
            from fastdns.engine.engine import Engine

            self.engine = Engine(self.flags.workers or min(cpu_count(), WORKERS_DEFAULT_MAX))
            instance.open(self.engine, {}, inherited.listeners if inherited else given.listeners(instance.servers) if given else {})
            instance.publish(self.engine)
        except BaseException:
            instance.abandon({})
            raise
        forking.close_in_children(self._ports)
        self.engine.start()
        control_plane.begin()
        self._serves(instance)
        # What follows is imported after the first answers, and by this thread nothing later: clients may have all descriptors then.
        from fastdns.engine import storms
        from fastdns.server import banner, canary_control, control, sections

        for server in instance.servers:
            self._print(banner.zone_lines(server))
        self._write_pidfile()
        run_hooks(instance.hooks.started, "startup")
        self.first_start = False
        sections.provide(self)
        canary_control.provide(self)
        self._remove_control_socket = control.serve(self.answer)
        self._storms = storms.Storms(self.engine)
        # The last line of a start: all threads and sockets are there.
        self._print(banner.version())
        if given:
            given.close()
        activation.keep(instance.listeners, given.names if given else ())
        if inherited:
            inherited.succeeded()
        self._serving.set()

    def _serves(self, instance: Instance) -> None:
        from fastdns.server import signals

        self.instance = instance
        signals.limit_end(instance.hooks.final_seconds)
        left_out.report(instance.configuration.left_out)

    def _ports(self) -> list[int]:
        """The ports that clients ask."""
        served = [self.instance, self.canary.new if self.canary is not None else None]
        return [server.port for instance in served if instance is not None for server in instance.servers]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the control socket: sections or a command of `telemetry.status`, or what becomes of a query.

        Raises ValueError, KeyError and TypeError.
        """
        if "sections" in request or "command" in request:
            from fastdns.telemetry import status

            if "command" in request:
                return dict(status.perform(str(request["command"]), request))
            return status.report([str(name) for name in request["sections"]], request)
        return self._explain(request)

    def _explain(self, request: dict[str, Any]) -> dict[str, Any]:
        from fastdns.server.commands import describe
        from fastdns.server.trial import ask_of

        instance, engine = self.instance, self.engine
        if instance is None or engine is None:
            raise ValueError("the server is starting")
        packet, client = bytes.fromhex(request["packet"]), bytes.fromhex(request["client"])
        explained = ask_of(engine, instance, instance.chains, request["address"], packet, client, bool(request["tcp"]))
        return describe(explained, int(request["type"]), instance.configuration.not_ready())

    def _print(self, lines: list[str]) -> None:
        if not self.flags.quiet:
            write(*lines)

    # ---- restart ----

    def restart(self, source: Source) -> None:
        """Replace the configuration while serving, or begin a canary where it says so. Raises RestartError; the former configuration then continues."""
        try:
            self._restart(source)
        finally:
            self._collector.ask()

    def _restart(self, source: Source) -> None:
        with self._restarting:
            replaced = self._roll_back(Judged("replaced", "another configuration is loaded"))
            old, engine = self.instance, self.engine
            if old is None or engine is None or self._stopping.is_set():
                raise RestartError("the server is stopping" if self._stopping.is_set() else "the server has not started")
            log.info("Reloading")
            rules: Rules | None = old.configuration.values.get(RULES)
            try:
                if rules is None:
                    _announce(old)
                new = Instance(Configuration(source, self.flags.port, self, rules.share if rules is not None else 1.0))
                self.tried = new.checksum
                if rules is not None and new.checksum == old.checksum:
                    new.configuration.discard()
                    if replaced:
                        log.info("Reloading complete: this configuration has been serving")
                        return
                    # Nothing to try: caches are emptied.
                    rules = None
                    _announce(old)
                    new = Instance(Configuration(source, self.flags.port, self))
                if rules is not None:
                    self._begin_canary(source, rules, new, old, engine)
                    return
                self._take_over(new, old, engine)
            except Exception as error:
                run_hooks(old.hooks.restart_failed, "Restart failed callback returned error")
                set_debug(old.debug)
                log.error(f"Restart failed: {_text(error)}")
                events.note("reload_failed", source.file, _text(error))
                for line in _frames(error):
                    log.error(line)
                raise RestartError(f"starting with listener file descriptors: {_text(error)}") from error
            self._replaced(source, new, old, engine, new.hooks.started)

    def _take_over(self, new: Instance, old: Instance, engine: Engine) -> None:
        set_debug(new.debug)
        prepared: Chains | None = None
        try:
            new.configuration.start(first=False)
            new.open(engine, old.listeners, {})
            prepared = self._tried(new, engine)
            self._publish(new, engine, prepared)
        except BaseException:
            if prepared is not None:
                engine.dismiss(prepared)
            new.abandon(old.listeners)
            raise

    def _publish(self, new: Instance, engine: Engine, prepared: Chains | None) -> None:
        with self._ending:
            if self._stopping.is_set():
                raise CorefileError("the server is stopping")
            new.publish(engine, prepared)
            self.canary = None
            self._serves(new)

    def _replaced(self, source: Source, new: Instance, old: Instance, engine: Engine, started: list[Hook]) -> None:
        """What follows once another configuration serves."""
        self.source = source
        engine.when_retired(self._collector.ask)
        run_hooks([partial(old.leave, engine, new)], "Leaving addresses of the previous configuration")
        run_hooks(old.hooks.shutdown, "Stopping the previous configuration")
        run_hooks(started, "startup")
        run_hooks([partial(activation.keep, new.listeners, old.listeners)], "Sockets for the service manager")
        log.info("Reloading complete")
        events.note("reload", source.file, "the configuration was replaced")

    def _tried(self, new: Instance, engine: Engine) -> Chains | None:
        """Run the expectations of a configuration before it serves. Raises CorefileError when one fails."""
        from fastdns.server import trial

        if not trial.expected(new):
            return None
        prepared = new.prepare(engine)
        try:
            trial.must_hold(engine, new, prepared)
        except BaseException:
            engine.dismiss(prepared)
            raise
        return prepared

    # ---- canary ----

    def _begin_canary(self, source: Source, rules: Rules, new: Instance, old: Instance, engine: Engine) -> None:
        """Have the new configuration serve a share of the clients. Addresses that it has and the old one has not are opened when it is promoted."""
        prepared: Chains | None = None
        try:
            new.configuration.start(first=False)
            new.open(engine, old.listeners, {}, later=True)
            prepared = self._tried(new, engine) or new.prepare(engine)
            canary = Canary(source, rules, engine.chains, new, prepared)
            with self._ending:
                if self._stopping.is_set():
                    raise CorefileError("the server is stopping")
                engine.begin_canary(prepared, rules.share, os.urandom(16))
                self.canary = canary
        except BaseException:
            if prepared is not None:
                engine.dismiss(prepared)
            new.abandon(old.listeners)
            raise
        run_hooks([hook for hook in new.hooks.started if hook not in new.hooks.whole], "startup")
        log.info(f"Canary: {rules}")
        events.note("canary", source.file, f"begins: {rules}")
        try:
            canary.watch(self.decide)
        except RuntimeError as error:
            self._roll_back(Judged("failed", f"nobody looks at it: {error}"))

    def decide(self, canary: Canary, judged: Judged) -> bool:
        """End a canary, unless something else has; whether it was this."""
        with self._restarting:
            if self.canary is not canary or self._stopping.is_set():
                return False
            if judged.outcome == "promoted":
                return self._promote(canary, judged)
            self._roll_back(judged)
            return True

    def _promote(self, canary: Canary, judged: Judged) -> bool:
        old, engine, new = self.instance, self.engine, canary.new
        if old is None or engine is None:
            return False
        try:
            _announce(old)
            new.open_reserved(engine, canary.chains)
            self._publish(new, engine, canary.chains)
        except Exception as error:
            run_hooks(old.hooks.restart_failed, "Restart failed callback returned error")
            self._roll_back(Judged("failed", f"it cannot take over: {_text(error)}"))
            return False
        set_debug(new.debug)
        canary.ended(judged)
        log.info(f"Canary promoted: {judged.cause}")
        events.note("canary", canary.source.file, f"promoted: {judged.cause}", **canary.section())
        self._replaced(canary.source, new, old, engine, new.hooks.whole)
        return True

    def _roll_back(self, judged: Judged) -> bool:
        """Take the canary back, if there is one."""
        with self._ending:
            canary, engine = self.canary, self.engine
            if canary is None or engine is None or self._stopping.is_set():
                return False
            self.canary = None
        canary.ended(judged)
        engine.end_canary()
        engine.when_retired(self._collector.ask)
        run_hooks(canary.new.hooks.shutdown, "Stopping the canary")
        canary.new.close_reserved()
        tell = log.error if judged.outcome == "failed" else log.warning
        tell(f"Canary rolled back: {judged.cause}. {canary.summary()}")
        events.note("canary", canary.source.file, f"rolled back: {judged.cause}", **canary.section())
        if judged.outcome == "failed":
            canary.rules.failed()
        return True

    # ---- signals ----

    def reload(self) -> None:
        """SIGUSR1: read the Corefile again and reload, once the process serves."""
        self._serving.wait()
        log.info("SIGUSR1: Reloading")
        if self.source is None or self.source.built_in:
            log.error("SIGUSR1: no Caddyfile loader with which to reload Caddyfile")
            return
        try:
            source = self.source.again()
        except OSError as error:
            log.error(f"SIGUSR1: loading updated Caddyfile: {system_error(error, path=self.source.path)}")
            return
        try:
            self.restart(source)
        except RestartError as error:
            log.error(f"SIGUSR1: {error}")

    def upgrade(self) -> None:
        """SIGUSR2: start the program again with this process's sockets, and end once the new process serves. Waits until this one serves."""
        self._serving.wait()
        log.info("SIGUSR2: Upgrading")
        log.info("Upgrading")
        with self._restarting:
            self._roll_back(Judged("replaced", "the program is started again (SIGUSR2)"))
            engine = self.engine
            if self.instance is None or self.source is None or engine is None:
                return
            run_hooks(self.instance.hooks.upgrade, "SIGUSR2 upgrade")
            try:
                successor = upgrade.hand_over(self.source, self.instance.listeners, engine.threads)
            except OSError as error:
                log.error(f"SIGUSR2: {error}")
                return
            activation.move(successor)
            upgrade.leave(self.instance.listeners)
            log.info("Upgrade finished")
            # The pid file is the new process's now.
            self.flags.pidfile = ""
            self.stop("SIGUSR2", graceful=True, meanwhile=lambda: upgrade.outlast(engine.threads, self._hurried))

    # ---- end ----

    def stop(self, name: str, graceful: bool, meanwhile: Callable[[], None] | None = None) -> None:
        """Run the shutdown hooks while still serving, and end the process. A second call only ends the wait for QUIC connections after an upgrade.

        ``meanwhile`` is called once no more queries are taken up from the sockets.
        """
        with self._ending:
            if self._stopping.is_set():
                self._hurried.set()
                return
            self._stopping.set()
            instance, canary = self.instance, self.canary
        if not graceful:
            self.remove_pidfile()
        status = 0
        if canary is not None:
            canary.over.set()
            run_hooks(canary.new.hooks.shutdown, f"{name} shutdown of the canary")
        if instance is not None and run_hooks([*instance.hooks.shutdown, *instance.hooks.final_shutdown], f"{name} shutdown"):
            status = EXIT_CALLBACK_FAILED
        self.remove_pidfile()
        if graceful and instance is not None and self.engine is not None and not self.engine.drain(STOP_SECONDS, meanwhile):
            for server in instance.servers:
                log.error(f"Stopping {server.address}: context deadline exceeded")
            status = EXIT_STOP_FAILED
        for served in (instance, canary.new if canary is not None else None):
            if served is not None:
                served.close_plugins()
        started = sys.modules.get("fastdns.control")
        if started is not None:
            started.stop(CONTROL_SECONDS)
        self.exit(status)

    def exit(self, status: int) -> None:
        """End the process at once, without waiting for threads or for the interpreter's finalisation."""
        try:
            self.remove_pidfile()
            self._remove_control_socket()
            flush()
            debug.report()
            sys.stderr.flush()
        finally:  # without memory, too
            os._exit(status)

    def _write_pidfile(self) -> None:
        path = self.flags.pidfile
        if not path:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(f"{os.getpid()}\n")
        except OSError as error:
            log.error(f"Could not write pidfile: {system_error(error, path=path)}")

    def remove_pidfile(self) -> None:
        if self.flags.pidfile and self.instance is not None:
            try:
                os.unlink(self.flags.pidfile)
            except OSError:
                pass


def _announce(old: Instance) -> None:
    """Tell the plugins of a configuration that another one is to take over."""
    for hook in old.hooks.restart:
        call(hook)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _frames(error: Exception) -> list[str]:
    """The lines of a traceback in the code of a plugin from elsewhere."""
    return [f"    at {frame}" for frame in error.frames] if isinstance(error, CorefileError) else []
