"""A thread with an event loop: start and stop, tasks and their exceptions, niceness.

The loops of the control plane (`fastdns.control`) and of the Python executors are `EventLoop`s. asyncio is imported by the thread of the first one: it is a
fifth of what a start imports, and a replica answers without it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from fastdns.system.thread import hold_priority, lower_priority, release_priority
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

__all__ = ["AGAIN", "STOP_SECONDS", "EventLoop", "Task", "TaskGroup", "endless"]

Result = TypeVar("Result")

#: Seconds that tasks have to end.
STOP_SECONDS = 5.0
#: Seconds after which a loop continues that ended with an exception.
PAUSE = 0.1
#: Seconds before something is tried again that failed for a reason of the machine: no memory, no thread.
AGAIN = 5.0

log = Log()


class EventLoop:
    """A daemon thread that runs an event loop. Methods may be called from any thread.

    With a ``niceness`` the thread is niced, except between `begin_urgent` and `end_urgent`, nor are the pools' threads, which its tasks may wait for.
    """

    #: For readers and transports. Used on the loop's thread.
    loop: asyncio.AbstractEventLoop

    def __init__(self, name: str, factory: Callable[[], asyncio.AbstractEventLoop] | None = None, niceness: int | None = None) -> None:
        """``factory`` makes the loop, on its thread; by default asyncio's own."""
        self.name = name
        self._factory = factory
        #: What was posted before the loop was made; None: it is made.
        self._early: deque[tuple[Callable[..., object], tuple[Any, ...]]] | None = deque()
        self._making = threading.Condition()
        #: Why it could not be made.
        self._unmade: BaseException | None = None
        #: Tasks of `spawn` that have not ended. Used on the loop's thread only.
        self.tasks: set[Task] = set()
        self.niceness = niceness
        self.niced = False
        self.thread: threading.Thread | None = None
        #: Identifier of the thread that runs the loop.
        self.native_id = 0
        self._ident = 0
        self._lock = threading.Lock()
        self._urgent: set[object] = set()
        self._stopping = False
        self._stopped = False
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the thread, and wait until it has made the loop. Further calls do nothing. Raises what making it raises: OSError without descriptors."""
        with self._lock:
            if self.thread is None and not self._stopping:
                self._unmade = None
                self._start_thread()
            thread = self.thread
        if thread is None or self._early is None:
            return
        with self._making:
            self._making.wait_for(lambda: self._early is None or self._unmade is not None)
        if self._unmade is not None:
            with self._lock:
                self.thread = None  # a later call tries again
            raise self._unmade

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Cancel all tasks and end the thread. False when that takes longer than this many seconds. Nothing runs on the loop afterwards."""
        with self._lock:
            first, self._stopping = not self._stopping, True
            release_priority(self)
        if self.thread is None:
            return True
        if first:
            self._post(self._begin_end)
        if self.on_thread:
            return True
        self.thread.join(seconds)
        return not self.thread.is_alive()

    @property
    def on_thread(self) -> bool:
        """Whether the caller runs on the loop's thread."""
        return threading.get_ident() == self._ident

    def spawn(self, coroutine: Coroutine[Any, Any, object], name: str = "", ended: Callable[[Task], object] | None = None) -> Task:
        """Schedule a coroutine. ``ended`` is called with the task on the loop's thread when it has ended. On a stopped loop it never runs."""
        task = Task(self, coroutine, name or getattr(coroutine, "__qualname__", "a task"), ended)
        if not self.call_soon(self._begin, task):
            coroutine.close()
            task.done = True
        return task

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """`start`, and schedule a coroutine; the future has its result or exception."""
        import asyncio

        self.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Call a short function on the loop's thread. Its exceptions are logged. False: the loop is stopped, the function is not called."""
        return not self._stopping and self._post(function, *args)

    # ---- priority ----

    def begin_urgent(self, holder: object) -> None:
        """Run at the process's priority until ``holder`` calls `end_urgent`. Must not be called from a niced thread.

        A thread cannot raise its own priority without CAP_SYS_NICE, so a loop whose thread is niced continues in a new thread.
        """
        with self._lock:
            self._urgent.add(holder)
            if self._stopping:
                return
            hold_priority(self)
            if self.niced and not self.on_thread:
                self.niced = False
                self._start_thread(self.thread)
                self._post(self.loop.stop)

    def end_urgent(self, holder: object) -> None:
        """End what `begin_urgent` began for ``holder``. Further calls do nothing."""
        with self._lock:
            self._urgent.discard(holder)
            if not self._urgent:
                release_priority(self)
            wanted = not self._urgent and not self.niced and self.niceness is not None
        if wanted:
            self.call_soon(self._lower)

    def _lower(self) -> None:
        with self._lock:
            # A thread that hands the loop over leaves its niceness as it is; the new thread lowers its own.
            mine = threading.current_thread() is self.thread
            if mine and self.niceness is not None and not self._urgent and not self.niced:
                lower_priority(self.niceness)
                self.niced = True

    # ---- the thread ----

    def _start_thread(self, former: threading.Thread | None = None) -> None:
        self.thread = threading.Thread(target=self._run, args=(former,), name=self.name, daemon=True)
        self.thread.start()

    def _run(self, former: threading.Thread | None) -> None:
        if former is not None:
            former.join()
        elif not self._make():
            return
        self._ident, self.native_id = threading.get_ident(), threading.get_native_id()
        self._lower()
        while not self._stopped:
            try:
                self.loop.run_forever()
                break
            except BaseException as error:  # of the loop itself: MemoryError, or SystemExit of a callback
                log.error(f"{self.name}: {error!r}")
                time.sleep(PAUSE)
        if self._stopped and not self.loop.is_closed():
            self.loop.close()

    def _make(self) -> bool:
        """False: it cannot be made, and `start` says why."""
        try:
            import asyncio

            loop = asyncio.SelectorEventLoop() if self._factory is None else self._factory()
            loop.set_exception_handler(self._failed)
        except BaseException as error:
            with self._making:
                self._unmade = error
                self._making.notify_all()
            return False
        with self._making:
            for function, args in self._early or ():
                loop.call_soon(function, *args)
            self.loop, self._early = loop, None
            self._making.notify_all()
        return True

    def _post(self, function: Callable[..., object], *args: Any) -> bool:
        if self._early is not None:
            with self._making:
                if self._early is not None:
                    self._early.append((function, args))
                    return True
        try:
            if self.on_thread:
                self.loop.call_soon(function, *args)
            else:
                self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # closed
            return False
        return True

    def _begin(self, task: Task) -> None:
        self.tasks.add(task)
        task._start()

    def _begin_end(self) -> None:
        self._ending = self.loop.create_task(self._cancel_all(), name="stop")

    async def _cancel_all(self) -> None:
        import asyncio

        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        self._stopped = True
        self.loop.stop()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.error(f"{self.name}: {context['message']}{'' if error is None else f': {error!r}'}")


class Task:
    """A coroutine on an event loop. Its exceptions are logged with its name."""

    __slots__ = ("_cancelled", "_coroutine", "_ended", "_loop", "_task", "done", "name")

    def __init__(self, loop: EventLoop, coroutine: Coroutine[Any, Any, object], name: str, ended: Callable[[Task], object] | None) -> None:
        self.name = name
        #: The coroutine has returned, raised or been cancelled.
        self.done = False
        self._loop = loop
        self._coroutine = coroutine
        self._ended = ended
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel the coroutine: asyncio.CancelledError is raised where it awaits. From any thread."""
        self._cancelled = True
        self._loop.call_soon(self._cancel)

    def _start(self) -> None:
        if self._cancelled:
            self._coroutine.close()
            self._finish()
            return
        self._task = self._loop.loop.create_task(self._coroutine, name=self.name)
        self._task.add_done_callback(self._returned)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _returned(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error(f"{self.name} ended unexpectedly: {error!r}")
        self._finish()

    def _finish(self) -> None:
        self.done = True
        self._loop.tasks.discard(self)
        if self._ended is not None:
            self._ended(self)


async def endless(function: Callable[[], Coroutine[Any, Any, object]], name: str) -> None:
    """Run a coroutine that is not to end before it is cancelled: after an exception that it did not foresee, such as a lack of memory, it begins again."""
    import asyncio

    while True:
        try:
            await function()
            return
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # SystemExit of a plugin's function, too
            with suppress(BaseException):
                log.error(f"{name} ended unexpectedly, and begins again: {error!r}")
        await asyncio.sleep(AGAIN)


class TaskGroup:
    """Tasks of one owner, which are stopped together. Methods may be called from any thread."""

    def __init__(self, loop: EventLoop) -> None:
        self.loop = loop
        self.tasks: set[Task] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._ended = threading.Event()

    def keep(self, function: Callable[[], Coroutine[Any, Any, object]], name: str) -> Task | None:
        """Schedule a coroutine that is not to end: see `endless`. None: the group is stopped."""
        return self.spawn(endless(function, name), name)

    def spawn(self, coroutine: Coroutine[Any, Any, object], name: str = "") -> Task | None:
        """Schedule a coroutine. None: the group is stopped."""
        with self._lock:
            if self._stopping:
                coroutine.close()
                return None
            task = self.loop.spawn(coroutine, name, self._discard)
            self.tasks.add(task)
            return task

    def stop(self, last: Callable[[], object] | None = None, seconds: float = STOP_SECONDS) -> bool:
        """Call ``last`` on the loop's thread, cancel all tasks and wait until they have ended. False when that takes longer.

        Does not wait when the caller is on the loop's thread, for example in a destructor that the garbage collector calls.
        """
        if not self.loop.call_soon(self._stop, last) or self.loop.on_thread:
            return True
        return self._ended.wait(seconds)

    def _stop(self, last: Callable[[], object] | None) -> None:
        try:
            if last is not None:
                last()
        finally:
            with self._lock:
                self._stopping = True
                tasks = tuple(self.tasks)
            for task in tasks:
                task.cancel()
            if not tasks:
                self._ended.set()

    def _discard(self, task: Task) -> None:
        with self._lock:
            self.tasks.discard(task)
            ended = self._stopping and not self.tasks
        if ended:
            self._ended.set()
