"""Scenarios of the process itself: reloads, Python plugins, the interpreter's lock."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import time

from fastdns.bench.scenarios.names import FLOOR_ADDRESS, PROBE, Named, names
from fastdns.bench.scenarios.scenario import Disturbance, Stage, Variant
from fastdns.bench.servers import Work
from fastdns.bench.workload import Collector, Question, Workload

A = 1
SERIAL = "serial.example.net."
OWN_ZONE = "python.example.org."

PLUGIN = f"""from fastdns.plugin import Plugin


class Own(Plugin):
    zones = ["{OWN_ZONE}"]

    def serve(self, query):
        return query.reply("A 10.0.0.1")


def setup(controller):
    return Own()
"""

#: A plugin that answers nothing, whose thread holds the interpreter's lock half a second at a time.
HOLDER = """import ctypes
import threading
import time


def hold():
    hold_lock = ctypes.PyDLL(None).usleep  # PyDLL keeps the interpreter's lock during the call
    while True:
        hold_lock(500_000)
        time.sleep(0.01)


def setup(controller):
    threading.Thread(target=hold, daemon=True).start()
"""


class Reload(Named):
    name = "reload"
    help = "fixed answers while the Corefile is changed and reloaded (SIGUSR1)"
    rates = (5000,)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--every", type=float, default=0.5, metavar="SECONDS", help="from one reload to the next (%(default)s)")

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        corefile = f".:{{port}} {{\n    {{bind}}\n    hosts {{\n        {serial(0)} {SERIAL[:-1]}\n        fallthrough\n    }}\n    whoami\n}}\n"
        work = Work("fixed answer, reloading", corefile, PROBE, needs=("hosts", "whoami"))
        workload = names(options.names, options.seed, None)
        return [Variant(work, workload, disturb=lambda running: Reloading(running, options.every))]


class Reloading(Disturbance):
    """Changes an address in the Corefile and reloads, then waits until it is answered."""

    _count = 0

    def step(self, number: int) -> None:
        before, Reloading._count = self._current(), Reloading._count + 1
        path = self.running.folder / "Corefile"
        path.write_text(path.read_text().replace(before, serial(Reloading._count)))
        began = time.monotonic()
        os.kill(self.running.pid, signal.SIGUSR1)
        self.watch(SERIAL, A, [serial(Reloading._count)], began)

    def _current(self) -> str:
        """The address that the Corefile has now."""
        text = (self.running.folder / "Corefile").read_text()
        return next(line.split()[0] for line in text.splitlines() if line.endswith(" " + SERIAL[:-1]))


def serial(number: int) -> str:
    return str(ipaddress.IPv4Address("10.64.0.0") + number)


class PythonPlugin(Named):
    name = "python-plugin"
    help = "a plugin in Python: its own queries, others beside it, and others without it"

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        needs = ("plugin", "whoami")
        with_plugin = Work(
            "Python plugin", ".:{port} {\n    {bind}\n    plugin own.py\n    whoami\n}\n", PROBE, needs, {"own.py": PLUGIN}, alone="a Python plugin"
        )
        without = Work("no Python plugin", ".:{port} {\n    {bind}\n    whoami\n}\n", PROBE, needs, alone="a Python plugin")
        others = names(options.names, options.seed, None)
        return [
            Variant(with_plugin, own_names(options.names), "own"),
            Variant(with_plugin, others, "beside"),
            Variant(without, others, "without"),
        ]


def own_names(count: int) -> Workload:
    """Questions that the plugin answers."""
    collector = Collector()
    for i in range(count):
        collector.add(Question(f"name-{i}.{OWN_ZONE}", A, 0, FLOOR_ADDRESS))
    return collector.workload("the plugin's own names")


class Gil(Named):
    name = "gil"
    help = "native answers while a Python thread holds the interpreter's lock"
    rates = (5000,)

    def prepare(self, options: argparse.Namespace, stage: Stage) -> list[Variant]:
        needs = ("plugin", "whoami")
        held = Work("lock held", ".:{port} {\n    {bind}\n    plugin hold.py\n    whoami\n}\n", PROBE, needs, {"hold.py": HOLDER}, alone="a Python plugin")
        quiet = Work("lock free", ".:{port} {\n    {bind}\n    whoami\n}\n", PROBE, needs, alone="a Python plugin")
        workload = names(options.names, options.seed, None)
        return [Variant(quiet, workload, "quiet"), Variant(held, workload, "held")]
