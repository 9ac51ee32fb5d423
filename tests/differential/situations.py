"""Which rule of RFC 1034 4.3.2, RFC 4592 and RFC 6672 answers a query: differences are grouped by it."""

from __future__ import annotations

from tests.differential.questions import Question
from tests.differential.zones import APEX, Labels, Zone, below, contradictions

HOPS = 20
SPECIAL = ("ANY", "RRSIG", "NSEC", "DS", "SOA", "NS", "CNAME", "DNAME")


def situation(zone: Zone, question: Question) -> str:
    """The first step and the last one of the look-up, an alias between them, and the type if it has rules of its own: ``alias > absent, DS``."""
    steps, _ = walk(zone, question)
    between = ["alias"] if "alias" not in steps[0] and any("alias" in step for step in steps[1:-1]) else []
    path = " > ".join([steps[0], *between, *steps[1:][-1:]])
    kind = question.type if question.type in SPECIAL else "a type"
    return f"{path}, {kind}{', signed' if zone.signing else ''}{', DO' if question.do else ''}"


def met(zone: Zone, question: Question) -> tuple[str, ...]:
    """The contradictions among the records that the look-up meets: of its names, the names above them, the wildcards beside all these, and the servers
    that these name."""
    near = {name[i:] for name in walk(zone, question)[1] for i in range(len(name) + 1)}
    near |= {("*", *name) for name in near}
    near |= {record.target() or APEX for record in zone.records if record.owner in near}
    return tuple(sorted(contradictions(Zone(tuple(record for record in zone.records if record.owner in near)))))


def walk(zone: Zone, question: Question) -> tuple[list[str], list[Labels]]:
    """The steps, and the names that they begin with."""
    name: Labels | None = question.name
    steps: list[str] = []
    names: list[Labels] = []
    while name is not None:
        if name in names or len(steps) == HOPS:
            return [*steps, "loop"], names
        names.append(name)
        step, name = look(zone, name, question.type)
        steps.append(step)
    return steps, names


def look(zone: Zone, name: Labels, kind: str) -> tuple[str, Labels | None]:
    """One step, and the name that it leads to."""
    for length in range(len(name) + 1):
        at = name[len(name) - length :]
        if at != APEX and "NS" in zone.types(at) and not (at == name and kind == "DS"):
            return ("cut" if at == name else "below a cut"), None
        if at != name and "DNAME" in zone.types(at):
            return follow(zone, "DNAME", at, name)
    if name in zone.names():
        return at_name(zone, "apex" if name == APEX else "wildcard itself" if name[0] == "*" else "name", name, kind)
    encloser = next(name[i:] for i in range(1, len(name) + 1) if name[i:] in zone.names())
    wildcard = ("*", *encloser)
    if wildcard in zone.names():
        return at_name(zone, "wildcard", wildcard, kind)
    return "absent", None


def at_name(zone: Zone, what: str, name: Labels, kind: str) -> tuple[str, Labels | None]:
    types = zone.types(name)
    if not types:
        beside = what == "name" and ("*", *name[1:]) in zone.owners()
        return ("empty non-terminal beside a wildcard" if beside else f"empty {what}"), None
    if "CNAME" in types and kind != "CNAME":
        record = next(record for record in zone.records if record.owner == name and record.type == "CNAME")
        target = record.target()
        return (f"{what} alias", target) if target is not None else (f"{what} alias outward", None)
    return f"{what} {'has' if kind in types or kind == 'ANY' else 'lacks'} it", None


def follow(zone: Zone, what: str, at: Labels, name: Labels) -> tuple[str, Labels | None]:
    record = next(record for record in zone.records if record.owner == at and record.type == "DNAME")
    target = record.target()
    if target is None:
        return f"{what} outward", None
    if below(target, at):
        return f"{what} into itself", None
    if target == at:
        return f"{what} of itself", None
    return what, (*name[: len(name) - len(at)], *target)
