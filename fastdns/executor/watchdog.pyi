from typing import Any

from fastdns.executor.executor import Executor

def executor_of(plugin: Any, name: str, waits: bool, deadline: int) -> Executor:
    """The running executor of a plugin object, with one user more. Raises OSError without descriptors, RuntimeError without threads."""

def executor_leave(executor: Executor) -> None:
    """One handler less uses it; with the last one its thread ends."""
