"""The clients that exceeded their rates most. The contract is in _clients.pxd."""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.memory cimport atomic_exchange32, atomic_store32
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.network cimport Address, address_text
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.worker cimport WORKERS_MAX

cdef extern from "<sched.h>" nogil:
    int sched_yield() noexcept

cdef struct Client:
    Identity identity
    uint64_t rank
    int64_t since               # ns, monotonic
    uint64_t counts[COUNTERS]

cdef struct Clients:
    uint32_t lock               # atomic; held for a look at the table
    uint32_t used
    uint64_t keys[CLIENTS_MAX]  # hashes of the identities
    Client clients[CLIENTS_MAX]

cdef Clients tables[WORKERS_MAX]    # of the process, as counters are


cdef Client *find_client(Clients *table, const Identity *identity, uint64_t key, int64_t now) noexcept nogil:
    """The client's place, which may have been another one's; NULL where nobody gives way."""
    cdef Client *client
    cdef uint32_t i, least = CLIENTS_MAX
    cdef uint64_t rank = 0
    for i in range(table.used):
        if table.keys[i] == key and memcmp(&table.clients[i].identity, identity, sizeof(Identity)) == 0:
            return &table.clients[i]
    if table.used < CLIENTS_MAX:
        least = table.used
        table.used += 1
    else:
        for i in range(CLIENTS_MAX):
            if now - table.clients[i].since > <int64_t>KEPT_SECONDS * 1000000000 and (
                    least == CLIENTS_MAX or table.clients[i].rank < table.clients[least].rank):
                least = i
        if least == CLIENTS_MAX:
            return NULL
        rank = table.clients[least].rank
    client = &table.clients[least]
    table.keys[least] = key
    memcpy(&client.identity, identity, sizeof(Identity))
    client.rank = rank
    client.since = now
    client.counts[0] = client.counts[1] = 0
    return client


cdef void clients_count(uint32_t worker, const Identity *identity, uint32_t counter, int64_t now) noexcept nogil:
    cdef Clients *table = &tables[worker]
    cdef Client *client = NULL
    if not atomic_exchange32(&table.lock, 1):
        client = find_client(table, identity, hash_octets(<const unsigned char *>identity, sizeof(Identity), hash_seed), now)
        if client != NULL:
            client.rank += 1
            client.counts[counter] += 1
        atomic_store32(&table.lock, 0)
    if client == NULL:
        metric_add(others[counter], worker, 1)


# ---- metrics ----

cdef list look():
    """(client_ip, namespace, pod), requests, responses of each client of each worker."""
    cdef Clients copy
    cdef Address address
    cdef char text[64]
    cdef Identity *identity
    cdef uint32_t i, worker
    cdef int length
    found = []
    for worker in range(WORKERS_MAX):
        if not tables[worker].used:
            continue
        with nogil:
            while atomic_exchange32(&tables[worker].lock, 1):
                sched_yield()
            memcpy(&copy, &tables[worker], sizeof(Clients))
            atomic_store32(&tables[worker].lock, 0)
        for i in range(copy.used):
            identity = &copy.clients[i].identity
            address.family = identity.family
            address.scope = 0
            memcpy(address.octets, identity.octets, 16)
            length = address_text(&address, text)
            names = (text[:length].decode(), identity.namespace[:identity.namespace_length].decode("utf-8", "replace"),
                     identity.pod[:identity.pod_length].decode("utf-8", "replace"))
            found.append((names, copy.clients[i].counts[COUNT_REQUESTS], copy.clients[i].counts[COUNT_RESPONSES]))
    return found


class ClientMetric(Metric):
    """A counter by ``client_ip``: of one kind of what was exceeded."""

    def __init__(self, name, help, counter):
        super().__init__(name, help, "counter", ("client_ip",))
        self.counter = counter

    def collect(self):
        found = dict(super().collect())
        for (address, *_), *counts in look():
            if counts[self.counter]:
                found[address,] = found.get((address,), 0.0) + counts[self.counter]
        return sorted(found.items())


class PodMetric(Metric):
    """A counter by pod: of all that was exceeded."""

    def collect(self):
        found = dict(super().collect())
        for names, *counts in look():
            if names[1]:
                found[names] = found.get(names, 0.0) + sum(counts)
        return sorted(found.items())


REQUESTS = ClientMetric("coredns_rrl_requests_exceeded_total", "Counter of requests exceeding QPS limit.", COUNT_REQUESTS)
RESPONSES = ClientMetric("coredns_rrl_responses_exceeded_total", "Counter of responses exceeding QPS limit.", COUNT_RESPONSES)
PODS = PodMetric("fastdns_rrl_pod_exceeded_total", "Requests and replies of pods above their limits, of the clients that are above it most.", "counter",
                 ("client_ip", "namespace", "pod"))

cdef uint32_t others[COUNTERS]
others[COUNT_REQUESTS] = (<Metric>REQUESTS).cell(("other",))
others[COUNT_RESPONSES] = (<Metric>RESPONSES).cell(("other",))
