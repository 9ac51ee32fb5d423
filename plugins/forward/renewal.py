"""Certificates of upstreams that change on disk."""

from __future__ import annotations

from fastdns.setup import Controller
from fastdns.tls.context import ClientContext
from fastdns.tls.renewal import Renewal

__all__ = ["keep_renewed"]


def keep_renewed(controller: Controller, context: ClientContext, log: str) -> None:
    """Have the context's files read again when they change, as long as this configuration serves. ``log`` names the source of log lines."""
    renewals: list[Renewal] = []

    def start() -> None:
        renewals.append(Renewal(context, context.files, context.states, log))

    def end() -> None:
        for renewal in renewals:
            renewal.end()

    if context.files:
        controller.on_startup(start)
        controller.on_shutdown(end)
