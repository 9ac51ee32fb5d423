"""``fastdns-bench compare SCENARIO``: servers side by side in rounds A B A B, beside the floor, at 5,000 and 20,000 queries a second and saturated."""

from __future__ import annotations

import argparse

from fastdns.bench.run import add_scenarios
from fastdns.bench.scenarios import SATURATED

RATES = (5000, 20_000, SATURATED)
ROUNDS = 3


def add_arguments(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("compare", help="a scenario with several servers side by side")
    add_scenarios(parser, rounds=ROUNDS, rates=RATES, subjects=("fastdns", "coredns", "knotd", "nsd", "unbound"))
