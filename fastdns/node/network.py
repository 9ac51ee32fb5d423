"""Interface and packet filter of a node: set up, checked, and removed at the end."""

from __future__ import annotations

import socket
from collections.abc import Callable

from fastdns.node import link
from fastdns.node.flags import Flags
from fastdns.node.rules import RulesError, find_rules
from fastdns.telemetry.log import Log

__all__ = ["Network", "described"]

log = Log()


class Network:
    """What the flags ask for. ``count`` is called with the kind of each error."""

    def __init__(self, flags: Flags, count: Callable[[str], None] = lambda kind: None) -> None:
        self.flags, self._count = flags, count
        self.rules = find_rules(flags.addresses, flags.port, flags.health_port) if flags.setupiptables else None
        #: Whether the interface was there at the last check.
        self._was_there = False

    def set_up(self) -> None:
        """Add what is missing of interface and rules."""
        self.ensure_interface()
        if rules := self.rules:
            for rule in rules.rules:
                try:
                    if not rules.ensure(rule):
                        log.info(f"Added back nodelocaldns rule - {' '.join([*rule[:2], *rule[2]])}")
                except RulesError as error:
                    log.error(f"Error checking/adding iptables rule: {error}")
                    self._count("iptables_lock" if error.locked else "iptables")

    def has_gone(self) -> bool:
        """Whether interface or addresses have been removed since they were made, as a pod does at its end that knows of no other one."""
        try:
            return self._was_there and not link.is_there(self.flags.interfacename, self.flags.addresses)
        except OSError:
            return False

    def ensure_interface(self) -> None:
        """Add the interface if it is missing and wanted."""
        name = self.flags.interfacename
        if not self.flags.setupinterface:
            return
        there = name in [known for _, known in socket.if_nameindex()]
        self._was_there = False
        try:
            if not link.ensure(name, self.flags.addresses):
                log.info(f"Added interface - {name}")
            self._was_there = True
        except OSError as error:
            log.error(f"Failed to {'check' if there else 'add non-existent'} interface {name}: {error}")
            self._count("interface_check" if there else "interface_add")

    def tear_down(self) -> None:
        """Remove rules and interface: queries to the addresses reach the cluster's Service again."""
        log.info("Tearing down")
        if rules := self.rules:
            for rule in rules.rules:
                try:
                    rules.remove(rule)
                except RulesError as error:
                    log.error(f"Failed deleting iptables rule: {error}")
        if self.flags.setupinterface:
            try:
                link.remove(self.flags.interfacename, self.flags.addresses)
            except OSError as error:
                log.error(f"Failed to remove interface {self.flags.interfacename}: {error}")


def described(flags: Flags) -> str:
    """What `Network.set_up` makes by these flags: two pods with the same text make the same."""
    interface = flags.interfacename if flags.setupinterface else ""
    return " ".join([interface, *map(str, flags.addresses), *([flags.port, flags.health_port] if flags.setupiptables else [])])
