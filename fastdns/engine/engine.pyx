"""Configurations come and go while the workers serve. See engine/engine.pyi."""
import threading
import time as _time

from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.string cimport memcpy
from fastdns.system.atomic cimport atomic_load_ns, atomic_store_pointer
from fastdns.system.epoch cimport epoch_wait
from fastdns.telemetry.metrics cimport metrics_prepare
from fastdns.walk.query cimport LISTENERS_MAX, WORKERS_MAX
from fastdns.engine.chains cimport Detach, chains_detach
from fastdns.engine.listener cimport Listener
from fastdns.telemetry.log import Log

log = Log()


cdef str text_of(error):
    try:
        return repr(error)
    except BaseException:
        return type(error).__name__


cdef class Engine:
    """The workers of this process and the configuration they serve; see engine/engine.pyi."""

    def __cinit__(self, uint32_t workers):
        if not 1 <= workers <= WORKERS_MAX:
            raise ValueError("1 to %d workers" % WORKERS_MAX)
        metrics_prepare(workers)
        self.listeners = set()
        self.indexes = set()
        self.retired = []
        self.ends = []
        self.retiring = threading.Lock()
        self.chains = Chains([])
        self.published = self.chains.set
        self.threads = Workers.make(workers, &self.published)

    @property
    def workers(self) -> int:
        return self.threads.count

    # ---- listeners ----

    def bind(self, str host, int port, reuse=(), int sockets=0, service=None, reserved=None) -> Listener:
        def make(index, generation):
            return Listener(self.threads, self._forget, index, generation, host, port, list(reuse), sockets, service)

        return self.place(make, reserved)

    def reserve(self) -> tuple:
        index = next(i for i in range(LISTENERS_MAX) if i not in self.indexes)
        self.bound += 1
        self.indexes.add(index)
        return index, self.bound

    def place(self, make, reserved=None):
        index, generation = reserved or self.reserve()
        try:
            listener = make(index, generation)
        except BaseException:
            if reserved is None:
                self.indexes.discard(index)
            raise
        self.listeners.add(listener)
        return listener

    def _forget(self, listener):
        self.listeners.discard(listener)
        self.indexes.discard(listener.index)

    # ---- configurations ----

    def prepare(self, list servers) -> Chains:
        """Builds chains without serving them yet. Either `publish` or `dismiss` follows."""
        return Chains(servers)

    def dismiss(self, Chains chains not None) -> None:
        """The end of chains that were prepared and will not be published: no worker is in them any more."""
        self._empty(chains)

    def publish(self, servers) -> Chains:
        """Switches the workers to chains, prepared or to be built, between two batches. The former ones drain in the background.

        What it raises leaves everything as it was."""
        cdef Chains chains = servers if isinstance(servers, Chains) else self.prepare(servers)
        cdef Chains former = self.chains
        cdef bint running = self.threads.running
        fresh = [listener for listener in chains.listeners if not listener.watched]
        prepared = []
        switched = threading.Event()
        try:
            for listener in fresh:
                listener._prepare()
                prepared.append(listener)
            if running:     # even one without handlers: a worker may be looking at its zones
                self._begin_retiring(former, switched)
        except BaseException:
            for listener in prepared:
                listener._forget_sockets()
            raise
        chains.served = True
        self.chains = chains
        if self.canary is chains:   # promoted: the former one still points at it, and it serves all that do not know yet
            self.canary = None
            chains.end_tally()
        atomic_store_pointer(<void **>&self.published, chains.set)
        for listener in fresh:
            listener._watch()
        if running:
            switched.set()
        else:
            self._close(former)
        return chains

    def begin_canary(self, Chains chains not None, double share, bytes key not None) -> None:
        """Gives chains to a share of the clients, by a hash of their addresses with this key of 16 octets.

        The pointer in the set that serves is the only thing that workers see of it: what it leads to is complete."""
        if self.canary is not None or len(key) != 16 or not 0 < share < 1:
            raise ValueError("one canary at a time, with a share between 0 and 1 and a key of 16 octets")
        chains.begin_tally(self.threads.count)
        self.chains.begin_tally(self.threads.count)
        chains.canary.set = chains.set
        memcpy(chains.canary.key, <const uint8_t *>key, 16)
        chains.canary.threshold = <uint32_t>(share * 4294967296.0)
        chains.served = True
        self.canary = chains
        atomic_store_pointer(<void **>&self.chains.set.canary, &chains.canary)

    def end_canary(self) -> None:
        """Takes the canary back from its clients, between two batches. On return no worker chooses it any more; it drains in the background."""
        cdef Chains chains = self.canary
        if chains is None:
            return
        self.canary = None
        atomic_store_pointer(<void **>&self.chains.set.canary, NULL)
        self.chains.end_tally()
        with nogil:
            epoch_wait()
        switched = threading.Event()
        switched.set()
        try:
            self._begin_retiring(chains, switched)
        except RuntimeError:        # no thread can be had
            self._empty(chains)
            self._close(chains)

    def when_retired(self, function) -> None:
        """Calls a function, on some thread, once no query is in any of the configurations that were replaced so far."""
        with self.retiring:
            former = set(self.retired)
            if former:
                self.ends.append((former, function))
                return
        function()

    cdef int64_t _parked(self, Chains chains):
        """Queries that hold a configuration; exact once the workers have passed a batch with the next one."""
        cdef uint32_t i
        cdef int64_t count = 0
        for i in range(self.threads.count):
            count += atomic_load_ns(&chains.set.parked[i])
        return count

    def _begin_retiring(self, Chains former, switched):
        """Starts the thread before the switch: where none can be had, RuntimeError is raised while nothing has changed."""
        with self.retiring:
            self.retired.append(former)
        try:
            threading.Thread(target=self._retire, args=([former], switched), name="retire", daemon=True).start()
        except BaseException:
            with self.retiring:
                self.retired.remove(former)
            raise

    def _retire(self, list held, switched):
        """Closes chains once no query is in them. `held` has them, so that the thread's arguments do not keep them."""
        cdef Chains former = held.pop()
        switched.wait()
        self._empty(former)
        self._close(former)
        with self.retiring:
            self.retired.remove(former)
            for waits_for, _ in self.ends:
                waits_for.discard(former)
            over = [function for waits_for, function in self.ends if not waits_for]
            self.ends = [end for end in self.ends if end[0]]
        former = waits_for = None
        for function in over:
            function()

    def _close(self, Chains chains):
        for handler in chains.handlers:
            try:
                handler.close()
            except BaseException as error:  # of a plugin: the others are closed all the same
                log.error(f"Closing {handler.name}: {text_of(error)}")

    def _empty(self, Chains chains):
        """Waits until no query is in the chains, and has every worker leave them."""
        left = True
        while self.threads.running and left:
            with nogil:
                epoch_wait()
            # A query may have left a detached child behind in the very batch that it ended in: only a count of
            # nothing that outlasts a batch is the end.
            left = self._parked(chains)
            if not left:
                with nogil:
                    epoch_wait()
                left = self._parked(chains)
            if left:
                _time.sleep(0.005)
        for i in range(self.threads.count):
            self._detach(chains, i)
        with nogil:
            epoch_wait()

    def _detach(self, Chains chains, uint32_t i):
        """Has worker i run the `detach` hooks until each has returned 1."""
        cdef Detach *detach = chains_detach(chains)
        while detach.count and self.threads.call(i, &detach.call):
            if detach.count:
                _time.sleep(0.01)

    # ---- life ----

    def start(self) -> None:
        self.threads.start()

    def parked(self) -> int:
        """Queries that wait, of all configurations."""
        return self.threads.parked()

    def drain(self, double seconds, meanwhile=None) -> bool:
        for listener in list(self.listeners):
            listener._unwatch()
        if meanwhile is not None:
            meanwhile()
        deadline = _time.monotonic() + seconds
        while self.parked() and _time.monotonic() < deadline:
            _time.sleep(0.005)
        done = not self.parked()
        for listener in list(self.listeners):
            done = listener._ended(deadline) and done
        self.threads.close_connections()
        return done

    def stop(self) -> None:
        """Ends the worker threads; sockets are closed."""
        self.threads.stop()
        for listener in list(self.listeners):
            listener._close_sockets()

    def statistics(self) -> dict:
        return self.threads.statistics()
