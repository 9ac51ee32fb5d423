"""The Corefile of rrl: directives, defaults and limits are those of coredns/rrl; ``by`` is fastdns's own."""

from __future__ import annotations

import math

from fastdns.corefile import CorefileError
from fastdns.setup import Controller

__all__ = ["BY_NAMESPACE", "BY_NETWORK", "BY_POD", "KINDS", "Settings", "parse"]

#: In the order of the numbers that the native handler knows them by.
KINDS = ("request", "response", "nodata", "nxdomain", "referral", "error")

BY_NETWORK = ""
BY_POD = "pod"
BY_NAMESPACE = "namespace"

#: Directives with a rate, and what they limit.
RATES = {
    "requests-per-second": "request",
    "responses-per-second": "response",
    "nodata-per-second": "nodata",
    "nxdomains-per-second": "nxdomain",
    "referrals-per-second": "referral",
    "errors-per-second": "error",
}

#: Accounts that a table has at least, as that of coredns/rrl, and at most: 1 GiB.
TABLE_LEAST = 1024
TABLE_MOST = 1 << 26

#: Seconds of debt that an account may have at most.
WINDOW_MOST = 86400.0

#: Tokens a second that can be told from no limit: one takes at least a nanosecond.
RATE_MOST = 1e9
RATE_LEAST = 1 / WINDOW_MOST

SLIP_MOST = 10


class Settings:
    """What one directive says."""

    def __init__(self) -> None:
        self.zones: list[str] = []
        self.window = 15.0
        self.ipv4_prefix_length = 24
        self.ipv6_prefix_length = 56
        #: By kind, in tokens a second; 0: no limit.
        self.rates = dict.fromkeys(KINDS, 0.0)
        self.slip_ratio = 0
        self.max_table_size = 100000
        self.report_only = False
        self.by = BY_NETWORK


def parse(controller: Controller) -> Settings:
    """Raises CorefileError."""
    settings = Settings()
    rates: dict[str, float] = {}
    while controller.once():
        settings.zones = controller.zones(controller.remaining_args())
        while controller.next_block():
            word = controller.val()
            if word in RATES:
                rates[RATES[word]] = _rate(controller)
            else:
                _property(controller, word, settings)
    settings.rates["request"] = rates.pop("request", 0.0)
    for kind in KINDS[1:]:
        settings.rates[kind] = rates.get(kind, rates.get("response", 0.0))
    return settings


def _property(controller: Controller, word: str, settings: Settings) -> None:
    if word == "window":
        settings.window = _decimal(controller)
        if not 0 <= settings.window <= WINDOW_MOST:
            raise controller.err("window cannot be negative" if settings.window < 0 else f"window is a day at most: {WINDOW_MOST:.0f}")
    elif word == "ipv4-prefix-length":
        settings.ipv4_prefix_length = _integer(controller, 1, 32)
    elif word == "ipv6-prefix-length":
        settings.ipv6_prefix_length = _integer(controller, 1, 128)
    elif word == "slip-ratio":
        settings.slip_ratio = _integer(controller, 0, SLIP_MOST)
    elif word == "max-table-size":
        settings.max_table_size = max(TABLE_LEAST, _integer(controller, 0, TABLE_MOST))
    elif word == "report-only":
        controller.no_args()
        settings.report_only = True
    elif word == "by":
        settings.by = controller.one_arg()
        if settings.by not in (BY_POD, BY_NAMESPACE):
            raise controller.err(f"by is 'pod' or 'namespace', not '{settings.by}'")
    else:
        raise controller.err(f"unknown property '{word}'")


def _decimal(controller: Controller) -> float:
    text = controller.one_arg()
    try:
        number = controller.decimal(text)
    except ValueError as error:
        raise _invalid(controller, text, error) from None
    if not math.isfinite(number):
        raise _invalid(controller, text, ValueError("not a finite number"))
    return number


def _rate(controller: Controller) -> float:
    rate = _decimal(controller)
    if rate < 0:
        raise controller.err(f"{controller.val()} cannot be negative")
    if rate and not RATE_LEAST <= rate <= RATE_MOST:
        raise controller.err(f"{controller.val()} must be 0, or between once a day and {RATE_MOST:.0f}")
    return rate


def _integer(controller: Controller, least: int, most: int) -> int:
    text = controller.one_arg()
    try:
        number = controller.integer(text)
    except ValueError as error:
        raise _invalid(controller, text, error) from None
    if not least <= number <= most:
        raise controller.err(f"{text} must be between {least} and {most}")
    return number


def _invalid(controller: Controller, text: str, error: ValueError) -> CorefileError:
    return controller.err(f"{text} invalid value. {error}")
