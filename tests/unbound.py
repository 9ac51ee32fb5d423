"""Unbound's daemon for tests: what all its configurations have."""

from __future__ import annotations

__all__ = ["SERVER"]

#: Of unbound.conf(5), with ``port`` and ``folder`` to fill in; a test's own lines of the clause `server` follow.
SERVER = """
remote-control:
    control-enable: no
server:
    interface: 127.0.0.1@{port}
    do-daemonize: no
    chroot: ""
    username: ""
    directory: "{folder}"
    pidfile: "{folder}/unbound.pid"
    use-syslog: no
    logfile: ""
"""
