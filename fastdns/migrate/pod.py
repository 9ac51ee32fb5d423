"""The container with the new image: what would not start, not be answered or not be enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastdns.corefile.duration import parse_duration
from fastdns.migrate.facts import Facts
from fastdns.migrate.fields import Json, number, quantity, rows, table, text, words
from fastdns.migrate.findings import ERROR, NOTE, WARNING, Finding
from fastdns.migrate.workload import Workload

__all__ = ["Change", "accepted", "check"]

PROGRAM = "/coredns"
#: The paths of the three pages, by directive.
PATHS = {"/health": "health", "/ready": "ready", "/metrics": "prometheus"}
#: Which page a probe that runs a command is better answered by, and the port where the Corefile says none.
PROBES = {"livenessProbe": "health", "readinessProbe": "ready", "startupProbe": "health"}
#: Megabytes by README's figures: kubeadm's Corefile without a cluster; what 10,101 Services and 100,000 endpoints add, and 150,000 pods; a full cache of
#: default size, and octets of each entry of a larger one.
PROCESS, CLUSTER, PODS, CACHE, ENTRY = 22, 18, 12, 33.6, 1680
ENTRIES = 9984
#: Seconds between the end of the lame duck and the kubelet's SIGKILL.
MARGIN = 20

#: Raises ValueError-like errors for words that are no flags, and tells the port of plain DNS.
ParseFlags = Callable[[list[str]], Any]


class Change:
    """Operations of a JSON patch (RFC 6902) on the pod, and those that take them back."""

    def __init__(self, workload: Workload) -> None:
        self.path = f"/spec/template/spec/containers/{workload.index}"
        #: Nothing is changed in another container, should they have been put in another order.
        self.guard = {"op": "test", "path": f"{self.path}/name", "value": workload.container_name}
        self.there: list[Json] = []
        self.back: list[Json] = []

    def replace(self, field: str, old: object, new: object) -> None:
        self.there.append({"op": "replace", "path": f"{self.path}/{field}", "value": new})
        self.back.insert(0, {"op": "replace", "path": f"{self.path}/{field}", "value": old})

    def operations(self, workload: Workload, image: str) -> list[Json]:
        return [self.guard, *self.there, {"op": "replace", "path": f"{self.path}/image", "value": image}]

    def inverse(self, workload: Workload) -> list[Json]:
        return [self.guard, *self.back, {"op": "replace", "path": f"{self.path}/image", "value": workload.image}]


def check(workload: Workload, facts: Facts | None, parse: ParseFlags, change: Change) -> Iterator[Finding]:
    """What has to be changed along with the image is also in ``change``."""
    yield from _program(workload, parse, change)
    yield from _capability(workload, change)
    if facts is not None:
        yield from _probes(workload, facts, change)
        yield from _ports(workload, facts)
        yield from _end(workload, facts)
    yield from _hooks(workload)
    yield from _resources(workload, facts)
    yield from _availability(workload)


def _program(workload: Workload, parse: ParseFlags, change: Change) -> Iterator[Finding]:
    program = words(workload.container, "command")
    if program and program[0] not in (PROGRAM, "coredns"):
        message = f"command: {program[0]} is not in the image, which has {PROGRAM} alone and no shell"
        yield Finding(ERROR, workload.title, message, f"have {PROGRAM} as the command, with the same arguments")
        return
    if program[:1] == ["coredns"]:
        change.replace("command", program, [PROGRAM, *program[1:]])
        yield Finding(WARNING, workload.title, f"command: coredns is not looked for in a path: it is {PROGRAM}", "the patch of the plan replaces it")
    given = workload.arguments
    kept, dropped = accepted(given, parse)
    if not dropped:
        return
    written = words(workload.container, "args")
    gone = f"arguments that fastdns does not have: {' '.join(dropped)}"
    if len(program) > 1 or given != written:
        yield Finding(ERROR, workload.title, gone, "remove them")
        return
    change.replace("args", written, kept)
    yield Finding(WARNING, workload.title, gone, "the patch of the plan removes them along with the new image")


def accepted(given: list[str], parse: ParseFlags) -> tuple[list[str], list[str]]:
    """The arguments without those that are unknown, and these."""
    kept = list(given)
    dropped: list[str] = []
    for _ in given:
        try:
            parse(kept)
        except Exception as error:
            flag = str(error).rpartition(": ")[2].partition("=")[0].lstrip("-")
            at = next((at for at, word in enumerate(kept) if word.lstrip("-").partition("=")[0] == flag), None)
            if at is None:
                return kept, [*dropped, str(error)]
            has_value = "=" not in kept[at] and at + 1 < len(kept) and not kept[at + 1].startswith("-")
            dropped += kept[at : at + 1 + has_value]
            del kept[at : at + 1 + has_value]
        else:
            break
    return kept, dropped


def _capability(workload: Workload, change: Change) -> Iterator[Finding]:
    context = table(workload.container, "securityContext")
    capabilities = table(context, "capabilities")
    added = {word.upper().removeprefix("CAP_") for word in words(capabilities, "add")}
    dropped = {word.upper().removeprefix("CAP_") for word in words(capabilities, "drop")}
    if {"NET_BIND_SERVICE", "ALL"} & added or not {"NET_BIND_SERVICE", "ALL"} & dropped or context.get("privileged") is True:
        return
    new = {**capabilities, "add": [*words(capabilities, "add"), "NET_BIND_SERVICE"]}
    kept = [word for word in words(capabilities, "drop") if word.upper().removeprefix("CAP_") != "NET_BIND_SERVICE"]
    change.replace("securityContext/capabilities", capabilities, {**new, "drop": kept})
    message = f"the container has no NET_BIND_SERVICE: {PROGRAM} has this file capability, and the kernel does not run it without (EPERM)"
    yield Finding(WARNING, workload.title, message, "the patch of the plan adds it along with the new image")


def _probes(workload: Workload, facts: Facts, change: Change) -> Iterator[Finding]:
    for probe, page in PROBES.items():
        written = table(workload.container, probe)
        action = table(written, "httpGet")
        if words(written, "exec", "command"):
            program = words(written, "exec", "command")[0]
            if program == PROGRAM:
                continue
            ports = sorted(port for _, port in facts.addresses(page))
            if not ports:
                yield Finding(
                    ERROR, workload.title, f"{probe} runs {program}, which is not in the image", f"add `{page}` to the Corefile, and ask it by httpGet"
                )
                continue
            path = next(path for path, name in PATHS.items() if name == page)
            rest = {key: value for key, value in written.items() if key != "exec"}
            change.replace(probe, written, {"httpGet": {"path": path, "port": ports[0], "scheme": "HTTP"}, **rest})
            yield Finding(
                WARNING, workload.title, f"{probe} runs {program}, which is not in the image", f"the patch of the plan has it ask {path} at port {ports[0]}"
            )
        elif action:
            port, path = workload.port(action.get("port")), text(action, "path").partition("?")[0] or "/"
            page = PATHS.get(path, "")
            if page and any(port == its for _, its in facts.addresses(page)):
                continue
            listed = ", ".join(f"`{name}` at {its}" for name in PATHS.values() for _, its in sorted(facts.addresses(name)))
            message = f"{probe} asks {path} at port {port or action.get('port')}, and nothing in the Corefile answers there"
            yield Finding(ERROR, workload.title, message, f"the Corefile has {listed or 'neither health nor ready'}")
        elif written.get("tcpSocket"):
            port = workload.port(table(written, "tcpSocket").get("port"))
            if port not in _tcp(facts):
                yield Finding(ERROR, workload.title, f"{probe} connects to port {port}, where nothing listens by the Corefile")


def _tcp(facts: Facts) -> set[int]:
    return facts.ports | {port for page in PATHS.values() for _, port in facts.addresses(page)}


def _ports(workload: Workload, facts: Facts) -> Iterator[Finding]:
    listening = _tcp(facts)
    known = {"console", "pprof", "dnstap", "acme"} & facts.directives
    for row in rows(workload.container, "ports"):
        port = number(row, "containerPort")
        if port and port not in listening and not known:
            yield Finding(NOTE, workload.title, f"the port {text(row, 'name') or port} ({port}) is listed, and nothing listens there by the Corefile")


def _end(workload: Workload, facts: Facts) -> Iterator[Finding]:
    lame = max((_seconds(word) for word in facts.properties("health").get("lameduck", [])), default=0.0)
    grace = number(workload.pod, "terminationGracePeriodSeconds")
    grace = 30 if grace is None else grace
    if grace < lame + MARGIN:
        message = f"terminationGracePeriodSeconds is {grace}, and the lame duck takes {lame:g} s"
        yield Finding(NOTE, workload.title, message, f"{lame + MARGIN:g} leaves time for shutdown hooks")


def _seconds(word: str) -> float:
    try:
        return parse_duration(word) / 1e9
    except ValueError:
        return 0.0


def _hooks(workload: Workload) -> Iterator[Finding]:
    for hook in ("postStart", "preStop"):
        program = words(workload.container, "lifecycle", hook, "exec", "command")
        if program and program[0] != PROGRAM:
            severity = ERROR if hook == "postStart" else WARNING
            what = "the container would be ended" if hook == "postStart" else "pods would end without that delay"
            yield Finding(
                severity,
                workload.title,
                f"{hook} runs {program[0]}, which is not in the image: {what}",
                "use `sleep` (Kubernetes 1.30), or health's `lameduck`",
            )


def _resources(workload: Workload, facts: Facts | None) -> Iterator[Finding]:
    limits = table(workload.container, "resources", "limits")
    if "cpu" in limits:
        message = f"a CPU limit of {limits['cpu']} throttles bursts"
        yield Finding(WARNING, workload.title, message, "set a CPU request and no limit (docs/operating.md, Capacity)")
    memory = quantity(limits.get("memory")) if "memory" in limits else None
    if memory is None or facts is None:
        return
    need, parts = needed(facts)
    if memory < need * 1e6:
        severity = WARNING if memory >= PROCESS * 1e6 else ERROR
        message = f"the memory limit of {limits['memory']} is below the {need:.0f} MB that it may take: {parts}"
        yield Finding(severity, workload.title, message, "raise it (170Mi is CoreDNS's own), or lower the capacity of cache")


def needed(facts: Facts) -> tuple[float, str]:
    """Megabytes that the process may take, and what they are for: by the README's figures and the bounds of its caches."""
    parts = [(PROCESS + 0.0, "the process")]
    if "kubernetes" in facts.directives:
        parts.append((CLUSTER, "10,000 Services with 100,000 endpoints"))
        if "verified" in facts.words("kubernetes"):
            parts.append((PODS, "150,000 pods"))
    caches = sum(_cache(lines) for lines in facts.lines("cache"))
    if caches:
        parts.append((caches, "full caches"))
    return sum(size for size, _ in parts), ", ".join(f"{size:.0f} for {what}" for size, what in parts)


def _cache(lines: list[list[str]]) -> float:
    """Megabytes of a full cache. `success` and `denial` have capacities of their own."""
    capacities = {line[0]: int(line[1]) for line in lines[1:] if line[0] in ("success", "denial") and len(line) > 1 and line[1].isdigit() and len(line[1]) < 12}
    entries = sum(capacities.get(half, ENTRIES) for half in ("success", "denial"))
    return max(CACHE, entries * ENTRY / 1e6)


def _availability(workload: Workload) -> Iterator[Finding]:
    if workload.kind.kind != "Deployment":
        return
    strategy = table(workload.object, "spec", "strategy")
    unavailable = table(strategy, "rollingUpdate").get("maxUnavailable")
    if workload.replicas < 2 and (text(strategy, "type") == "Recreate" or unavailable in (1, "100%")):
        yield Finding(WARNING, workload.title, "there is one replica, and the update ends it before the new one is ready: no DNS meanwhile", "scale to 2 first")
    elif text(strategy, "type") == "Recreate":
        yield Finding(WARNING, workload.title, "the strategy Recreate ends all replicas before the new ones are ready: no DNS meanwhile", "use RollingUpdate")
