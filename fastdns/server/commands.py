"""The commands of ``fastdns``: reports on a Corefile, a query or the running server, and a first Corefile."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from fastdns.corefile.errors import CorefileError, defect
from fastdns.server.source import Source, find
from fastdns.telemetry import log

if TYPE_CHECKING:
    from fastdns.server.explain import Explained
    from fastdns.server.inspection import Inspection, Problem

__all__ = ["FLAGS", "RUNS", "main", "run"]

USAGE = """Usage:
  fastdns check [-json] [-notests] [-strict] [-dns.port PORT] [COREFILE]
                                                                   all problems of a Corefile; status 1 where it would not be served, with -strict
                                                                   also where there are warnings
  fastdns plan [-json] [-dns.port PORT] [COREFILE]                 its server blocks, addresses and chains
  fastdns explain NAME [TYPE] [-client IP] [-tcp] [-address ADDRESS] [-conf COREFILE] [-pid PID] [-json]
                                                                   what becomes of a query: in the running server, or with -conf in a Corefile
  fastdns diff OLD NEW [-queries FILE|recorder] [-port PORT] [-pid PID] [-upstreams] [-dns.port PORT] [-json]
                                                                   which names, zones and clients two Corefiles answer otherwise; status 1 where there are some
  fastdns recorder show|dump|list [-which recent|slow|failed|dropped] [-name NAME] [-client NETWORK] [-most N] [-pid PID] [-json]
                                                                   the queries that the running server has recorded; writes them to files; lists these
  fastdns canary [status|promote|abort] [-pid PID] [-json]         the configuration that a reload tries on some of the clients: shows it, or ends it
  fastdns slo rules [-job JOB] [-operator] [COREFILE]              rules for Prometheus, with alerts on the objectives of `slo` in a Corefile
  fastdns init [COREFILE]                                          asks three questions, and writes a first Corefile
  fastdns top [-once] [-json] [-interval DURATION] [-window 1m|10m|1h] [-pid PID] [ADDRESS...]
              [-token FILE] [-ca FILE] [-cert FILE -key FILE]
              [-selector LABELS [-namespace NAMESPACE] [-port PORT] [-kubeconfig FILE] [-context CONTEXT]]
                                                                   what the running server does: rates, latencies, cache, upstreams, who asks what;
                                                                   of the consoles at ADDRESS, or of pods, several servers as one
  fastdns migrate [-namespace NAMESPACE] [-deployment NAME | -selector LABELS] [-image IMAGE] [-json]
                  [-kubeconfig FILE] [-context CONTEXT | -f FILE...]
                                                                   a cluster whose CoreDNS is to be replaced: what to change first, what behaves otherwise,
                                                                   and the commands to try, change, watch and go back. Reads the cluster, or files with
                                                                   its objects; status 1 where something has to be changed, 2 where something cannot be read
  fastdns shadow report [-pid PID] [-json]                         what the plugin shadow of the running server has found
  fastdns shadow -against ADDRESS [-of ADDRESS] [-rate N] [-outstanding N] [-timeout DURATION] [-distinct] [-port PORT] [-ignore NAMES] [-keep N]
              [-json] FILE...                                      the answers in dnstap and pcap files beside those of a server, or with -of
                                                                   those of two servers to their questions; status 1 where there are differences
COREFILE is ./Corefile by default, '-' is standard input. Flags may begin with two hyphens.
"""

#: Flags of each command; True: it takes a value.
FLAGS = {
    "check": {"json": False, "notests": False, "strict": False, "dns.port": True, "conf": True},
    "plan": {"json": False, "dns.port": True, "conf": True},
    "diff": {"json": False, "upstreams": False, "queries": True, "port": True, "pid": True, "dns.port": True},
    "init": {},
    "recorder": {"json": False, "which": True, "name": True, "client": True, "most": True, "pid": True},
    "canary": {"json": False, "pid": True},
    "explain": {"json": False, "tcp": False, "client": True, "address": True, "conf": True, "pid": True, "dns.port": True},
    "slo": {"job": True, "operator": False, "dns.port": True, "conf": True},
    "top": {
        **dict.fromkeys(("once", "json"), False),
        **dict.fromkeys(("interval", "window", "pid", "token", "ca", "cert", "key", "selector", "namespace", "port", "kubeconfig", "context"), True),
    },
    "migrate": {
        **dict.fromkeys(("json", "f"), False),
        **dict.fromkeys(("namespace", "deployment", "selector", "image", "kubeconfig", "context"), True),
    },
    "shadow": {
        **dict.fromkeys(("json", "distinct"), False),
        **dict.fromkeys(("against", "of", "rate", "outstanding", "timeout", "port", "ignore", "keep", "pid"), True),
    },
}

OK, FAILED, MISUSED = 0, 1, 2


class UsageError(Exception):
    """The command line is malformed; the text goes to standard error."""


def run(words: list[str]) -> int:
    """Run the command ``words[0]`` and print its report. Returns the exit status."""
    command = words[0]
    former = log.divert(lambda level, text: print(f"[{level}] {text}", file=sys.stderr) if level in ("ERROR", "FATAL") else None)
    try:
        flags, rest = _parse(words[1:], FLAGS[command])
        if "help" in flags:
            sys.stdout.write(USAGE)
            return OK
        return RUNS[command](flags, rest)
    except UsageError as error:
        sys.stderr.write(f"{error}\n{USAGE}")
        return MISUSED
    except (CorefileError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    except Exception as error:
        sys.stderr.write(f"{defect(error)}\n")
        return FAILED
    finally:
        log.divert(former)


def _parse(words: list[str], known: dict[str, bool]) -> tuple[dict[str, str], list[str]]:
    """The flags and the other words, which may be in any order. Raises UsageError."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    pending = words[::-1]
    while pending:
        word = pending.pop()
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, separator, value = word.lstrip("-").partition("=")
        if name in ("h", "help"):
            flags["help"] = ""
        elif name not in known:
            raise UsageError(f"flag provided but not defined: -{name}")
        elif known[name] and not separator:
            if not pending:
                raise UsageError(f"flag needs an argument: -{name}")
            flags[name] = pending.pop()
        else:
            flags[name] = value
    return flags, rest


def _source(flags: dict[str, str], rest: list[str]) -> Source:
    """The Corefile to read. Raises UsageError when several are given, CorefileError when it cannot be read."""
    named = [*rest, *([flags["conf"]] if "conf" in flags else [])]
    if len(named) > 1:
        raise UsageError(f"one Corefile at a time, not {' '.join(named)}")
    return find("stdin" if named == ["-"] else "".join(named), flags.get("dns.port", "53"))


# ---- init ----


def _init(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import first

    if len(rest) > 1:
        raise UsageError(f"one Corefile at a time, not {' '.join(rest)}")
    return first.write("".join(rest))


# ---- top ----


def _top(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import control
    from fastdns.setup import registry
    from fastdns.top import command as top

    return top.run(flags, rest, control.ask, lambda *words: registry.part("kubernetes", "pods").addresses(*words))


def _shadow(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.comparison import command as shadow
    from fastdns.server import control

    return shadow.run(flags, rest, control.ask)


def _migrate(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.migrate import command as migrate
    from fastdns.server import flags as command_line
    from fastdns.server.inspection import Inspection
    from fastdns.setup import registry

    if "f" in flags and {"kubeconfig", "context"} & flags.keys():
        raise UsageError("files and a kubeconfig exclude each other")
    if rest and "f" not in flags:
        raise UsageError(f"files come behind -f, not {' '.join(rest)}")
    if "f" in flags and not rest and not flags["f"]:
        raise UsageError("-f which files?")
    if "deployment" in flags and "selector" in flags:
        raise UsageError("a name and labels exclude each other")
    return migrate.run(
        flags,
        rest,
        migrate.Tools(
            connect=lambda kubeconfig, context: registry.part("kubernetes", "kubectl").Reader(kubeconfig, context).get,
            documents=lambda path: registry.part("kubernetes", "watch.yaml_loader").read_documents(path),
            selector=lambda text: registry.part("kubernetes", "watch.selectors").Selector.parse(text),
            inspect=lambda path, port: Inspection(find(path, port), port).problems,
            flags=command_line.parse,
            gateway=lambda: {name: (kind.group, kind.plural) for name, kind in registry.part("k8s_gateway", "kinds").RESOURCES.items()},
        ),
    )


# ---- check ----


def _check(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server.inspection import Inspection, Problem

    source = _source(flags, rest)
    port = flags.get("dns.port", "53")
    inspection = Inspection(source, port)
    problems = list(inspection.problems)
    tests = 0 if "notests" in flags or inspection.failed else _tests(inspection)
    if tests:
        try:
            failures, not_asked = _ask_all(source, port)
            problems += not_asked
        except (CorefileError, OSError, ValueError, RuntimeError) as error:
            failures = [f"the tests cannot be asked: {error}"]
        for text in failures:
            place, separator, message = text.partition(" - ")
            file, _, line = place.rpartition(":")
            known = bool(separator) and line.isdigit()
            problems.append(Problem("error", file if known else source.file, int(line) if known else 0, message if known else text, ""))
    refused = any(problem.severity == "error" for problem in problems)
    if "strict" in flags:
        problems = [problem._replace(severity="error") for problem in problems]
    errors = sum(problem.severity == "error" for problem in problems)
    if "json" in flags:
        _print_json({"file": source.file, "ok": not errors, "tests": tests, "problems": [problem._asdict() for problem in problems]})
    else:
        for problem in problems:
            print(problem)
        asked = f", {tests} tests asked" if tests else ""
        outcome = "would not be served" if refused else "would be served, with warnings" if errors else "OK"
        print(f"{source.file}: {outcome} ({errors} errors, {len(problems) - errors} warnings{asked})")
    return FAILED if errors else OK


def _tests(inspection: Inspection) -> int:
    from fastdns.server.expectations import expectations

    return sum(len(expectations(config.values)) for config in inspection.configs)


def _ask_all(source: Source, port: str) -> tuple[list[str], list[Problem]]:
    """What the `test` lines find wrong, and the plugins that they do not ask."""
    from fastdns.server.inspection import Problem
    from fastdns.server.trial import Trial

    trial = Trial(source, port)
    hint = "where it may run without serving, its TRAITS say `runs_in_check=True`"
    try:
        not_asked = [
            Problem("warning", word.file, word.line, f"plugin/{handler.name}: it is set up and not asked by `test` lines", hint)
            for handler, word in trial.configuration.not_asked
        ]
        return trial.failures(), not_asked
    finally:
        trial.close()


# ---- plan ----


def _plan(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import plan
    from fastdns.server.inspection import Inspection

    source = _source(flags, rest)
    inspection = Inspection(source, flags.get("dns.port", "53"))
    servers = plan.describe(inspection)
    if "json" in flags:
        problems = [problem._asdict() for problem in inspection.problems]
        _print_json({"file": source.file, "ok": not inspection.failed, "servers": servers, "problems": problems})
        return FAILED if inspection.failed else OK
    for problem in inspection.problems:
        print(problem, file=sys.stderr)
    for server in servers:
        print(server["address"])
        for zone in server["zones"]:
            view = f" (view {zone['view']})" if zone["view"] else ""
            print(f"  {zone['zone']}{view}  block {zone['block']}, {zone['place']}")
            for handler in zone["chain"]:
                print(f"    {handler['name']:<14}{handler['runs']}")
            if zone["beside"]:
                print(f"    beside the chain: {' '.join(zone['beside'])}")
    return FAILED if inspection.failed else OK


# ---- slo ----


def _slo(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server.inspection import Inspection
    from fastdns.setup import registry

    if rest[:1] != ["rules"]:
        raise UsageError("slo prints rules")
    inspection = Inspection(_source(flags, rest[1:]), flags.get("dns.port", "53"))
    for problem in inspection.problems:
        print(problem, file=sys.stderr)
    rules = registry.part("slo", "rules")
    targets = [
        rules.Target(server.address, address.zone, config.view, config.values["slo"], "shed" in config.directives)
        for server in inspection.servers
        for address, config in server.members
        if "slo" in config.values
    ]
    if not targets:
        raise ValueError(f"{inspection.source.file} has no slo")
    sys.stdout.write(rules.document(targets, flags.get("job", "kube-dns"), "operator" in flags))
    return FAILED if inspection.failed else OK


# ---- diff ----


def _diff(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import control
    from fastdns.server.diff import command as diff

    if len(rest) != 2:
        raise UsageError("diff takes two Corefiles")
    port = flags.get("dns.port", "53")
    old, new = (find("stdin" if path == "-" else path, port) for path in rest)
    numbers = (int(flags.get("port") or 53), int(flags.get("pid") or 0))
    return diff.run(old, new, port, flags.get("queries", ""), *numbers, "json" in flags, "upstreams" in flags, control.ask)


# ---- explain ----


def _explain(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import control
    from fastdns.server.expectations import parse_question

    if not rest:
        raise UsageError("explain what?")
    client = f" from {flags['client']}" if "client" in flags else ""
    question = parse_question(" ".join(rest) + (" A" if len(rest) == 1 and client else "") + client)
    if "conf" in flags:
        from fastdns.server.trial import Trial

        trial = Trial(_source(flags, []), flags.get("dns.port", "53"))
        try:
            explained = trial.ask(question.packet(), question.client, flags.get("address", ""), "tcp" in flags)
            result = describe(explained, question.qtype, trial.configuration.not_ready())
        finally:
            trial.close()
    else:
        request = {"packet": question.packet().hex(), "client": question.client.hex(), "address": flags.get("address", ""), "tcp": "tcp" in flags}
        result = control.ask({**request, "type": question.qtype}, int(flags.get("pid") or 0))
    if "json" in flags:
        _print_json({"question": str(question), **result})
    else:
        _print_explanation(str(question), result)
    return OK if result["outcome"] == "reply" else FAILED


def _recorder(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import recordings

    if len(rest) > 1 or not set(rest) <= set(recordings.ACTIONS):
        raise UsageError(f"recorder does one of {', '.join(recordings.ACTIONS)}")
    return recordings.run("".join(rest) or "show", flags)


def _canary(flags: dict[str, str], rest: list[str]) -> int:
    from fastdns.server import canary_control

    if len(rest) > 1 or not set(rest) <= set(canary_control.ACTIONS):
        raise UsageError(f"canary does one of {', '.join(canary_control.ACTIONS)}")
    return canary_control.run("".join(rest) or "status", flags)


def describe(explained: Explained, qtype: int, not_ready: list[str]) -> dict[str, Any]:
    """The JSON object of ``fastdns explain -json``, without the question. ``not_ready`` names the plugins that are not."""
    from fastdns.server.expectations import answers

    return {
        "outcome": explained.outcome,
        "zone": explained.zone,
        "answers": answers(explained, qtype),
        "not_ready": not_ready,
        "microseconds": explained.took / 1000,
        "steps": [{**step._asdict(), "at": step.at / 1000, "took": step.took / 1000} for step in explained.steps],
    }


def _print_explanation(question: str, result: dict[str, Any]) -> None:
    print(f"{question}: {result['outcome']} {' '.join(result['answers'])}" if result["outcome"] == "reply" else f"{question}: {result['outcome']}")
    print(f"zone {result['zone'] or '(none)'}, {result['microseconds']:.1f} us in all")
    if result["not_ready"]:
        print(f"not ready: {' '.join(result['not_ready'])}")
    for step in result["steps"]:
        arrow = {"query": "->", "reply": "<-", "resume": ".."}[step["hook"]]
        rest = "".join(f" {step[key]}" for key in ("upstream", "note", "error") if step[key])
        print(f"  {step['at']:>10.1f} us  {'  ' * step['depth']}{arrow} {step['handler']:<14}{step['says']:<20}{step['took']:>10.1f} us{rest}")


def _print_json(value: object) -> None:
    json.dump(value, sys.stdout, indent=2)
    print()


RUNS = {
    "check": _check,
    "plan": _plan,
    "diff": _diff,
    "explain": _explain,
    "init": _init,
    "recorder": _recorder,
    "canary": _canary,
    "slo": _slo,
    "top": _top,
    "migrate": _migrate,
    "shadow": _shadow,
}


def main(words: list[str]) -> int:
    """`run`; a closed standard output ends the command with the status of a failure."""
    try:
        status = run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = FAILED
    return status
