"""What all micro-benchmarks are timed by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Result = TypeVar("Result")

SEED = 20_111


def pytest_configure(config: pytest.Config) -> None:
    """Names hash the same in every run that times: which of them share a bucket would make a difference."""
    if not config.getoption("benchmark_disable") or config.getoption("benchmark_enable"):
        from fastdns.bench.micro.seed import fix_name_hash

        fix_name_hash(SEED)


class Timed:
    """Times a function that does so many operations: the report is in nanoseconds for one."""

    def __init__(self, benchmark: Any) -> None:
        self.benchmark = benchmark

    def __call__(self, operations: int, function: Callable[..., Result], *arguments: Any) -> Result:
        """What the function has returned in the last round."""
        self.benchmark.extra_info["operations"] = operations
        result: Result = self.benchmark(function, *arguments)
        return result


@pytest.fixture
def timed(benchmark: Any) -> Timed:
    return Timed(benchmark)
