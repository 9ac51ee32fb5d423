"""Steps that look at what the server shows beside its answers: HTTP endpoints, its output, its upstreams, files, its end."""

from __future__ import annotations

import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from typing import Any

from tests.conformance.answers import Answer, mask
from tests.conformance.cases import Step, as_list
from tests.conformance.run import Run

__all__ = ["alive", "count", "exits", "file_has", "http", "last_query", "log", "log_lines", "metrics", "no_log"]


def settled(look: Callable[[], list[str]], limit: float, pause: float = 0.05) -> list[str]:
    """The differences that are left when there are none any more, or after ``limit`` seconds."""
    end = time.monotonic() + limit
    while (differences := look()) and time.monotonic() <= end:
        time.sleep(pause)
    return differences


# ---- HTTP ----


def http(run: Run, number: int, step: Step) -> None:
    """A request, repeated until the response is as the step wants it."""
    described = step["http"] if isinstance(step["http"], dict) else {"url": step["http"]}

    def look() -> list[str]:
        status, text, headers = fetch(run.places.fill(described["url"]), described)
        found = [f"status {status}, wanted {step.get('status', 200)}"] if status != step.get("status", 200) else []
        found += [f"lacks /{pattern}/" for pattern in as_list(step.get("match")) if not re.search(run.places.fill(pattern), text, re.MULTILINE)]
        found += [f"has /{pattern}/" for pattern in as_list(step.get("nomatch")) if re.search(run.places.fill(pattern), text, re.MULTILINE)]
        for name, pattern in (step.get("headers") or {}).items():
            if not re.search(pattern, headers.get(name) or ""):
                found.append(f"header {name}: {headers.get(name)}")
        return found

    run.check(number, settled(look, step.get("limit", 3), 0.1), f"http {described['url']}")


def fetch(url: str, described: dict[str, Any]) -> tuple[int, str, Message]:
    """Status, body and headers; status 0 and the error where there was no response."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    body = bytes.fromhex(described["body_hex"]) if "body_hex" in described else None
    request = urllib.request.Request(url, body, described.get("headers", {}), method=described.get("method"))
    try:
        with opener.open(request, timeout=3) as response:
            return response.status, response.read().decode(errors="replace"), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace"), error.headers
    except OSError as error:
        return 0, str(error), Message()


def metrics(run: Run, number: int, step: Step) -> None:
    """The lines of the metrics page that match, with ports as placeholders."""
    wanted = [re.compile(run.places.fill(pattern)) for pattern in as_list(step["metrics"])]
    unwanted = [re.compile(pattern) for pattern in as_list(step.get("nomatch"))]
    url = f"http://127.0.0.1:{run.places.port('metrics_port')}/metrics"

    def look() -> Answer:
        status, text, _ = fetch(url, {})
        if status != 200:
            return {"error": text}
        lines = (line for line in text.splitlines() if any(pattern.search(line) for pattern in wanted))
        return {"lines": sorted(run.places.restore(line) for line in lines if not any(pattern.search(line) for pattern in unwanted))}

    if run.record:
        time.sleep(0.5)
    judge_settled(run, number, step, f"metrics {' '.join(as_list(step['metrics']))}", look)


def judge_settled(run: Run, number: int, step: Step, what: str, look: Callable[[], Answer]) -> None:
    """Judges what ``look`` gives when it is as recorded, or after the step's ``limit``; the first one while recording."""
    step = {**step, "ttl": None}
    got: Answer = {}

    def differences() -> list[str]:
        got.clear()
        got.update(look())
        return run.differences(number, mask(got, step), step)

    if run.record:
        got.update(look())
    else:
        settled(differences, step.get("limit", 3), 0.1)
    run.judge(number, step, what, got)


# ---- output ----


def log(run: Run, number: int, step: Step) -> None:
    """The output has a match."""
    pattern = run.places.fill(step["log"])

    def look() -> list[str]:
        text = run.server.log()
        return [] if re.search(pattern, text, re.MULTILINE) else [f"output lacks /{pattern}/: ...{text.strip()[-200:]}"]

    run.check(number, settled(look, step.get("limit", 3)), "log")


def no_log(run: Run, number: int, step: Step) -> None:
    """The output has no match, ``limit`` seconds from now either."""
    pattern = run.places.fill(step["nolog"])
    time.sleep(step.get("limit", 0.3))
    text = run.server.log()
    found = re.search(pattern, text, re.MULTILINE)
    run.check(number, [f"output has /{pattern}/: ...{text.strip()[-200:]}"] if found else [], "log")


def log_lines(run: Run, number: int, step: Step) -> None:
    """All matches in the output, with ports as placeholders."""
    pattern = re.compile(run.places.fill(step["log_lines"]), re.MULTILINE)

    def look() -> Answer:
        found = [run.places.restore(match[0]) for match in pattern.finditer(run.server.log())]
        return {"lines": found if step.get("ordered") else sorted(found)}

    if run.record:
        time.sleep(step.get("settle", 0.7))
    judge_settled(run, number, step, f"log_lines {step['log_lines']}", look)


# ---- upstreams ----


def count(run: Run, number: int, step: Step) -> None:
    """How much upstreams received since the start or the last ``forget``: ``{N: 3}``, ``{N conns: '>=2'}``."""

    def look() -> list[str]:
        found = []
        for name, wanted in step["count"].items():
            have = received(run, str(name))
            limit = re.fullmatch(r"(>=|<=|==)?\s*(\d+)", str(wanted))
            assert limit is not None, f"count: {wanted}"
            least = int(limit[2]) if limit[1] != "<=" else 0
            most = int(limit[2]) if limit[1] != ">=" else have
            if not least <= have <= most:
                found.append(f"upstream {name} got {have} queries, wanted {wanted}")
        return found

    run.check(number, settled(look, step.get("limit", 2)), "count")


def received(run: Run, name: str) -> int:
    if name == "sum":
        return sum(len(upstream.queries) for upstream in run.upstreams.values())
    number, _, what = name.partition(" ")
    upstream = run.upstreams[number]
    if what == "conns":
        return upstream.tcp_accepted
    if what == "checks":
        return upstream.health_checks
    return len({"": upstream.queries, "ids": upstream.ids, "ports": upstream.ports}[what])


def last_query(run: Run, number: int, step: Step) -> None:
    """The last query that an upstream received."""
    upstream = run.upstreams[str(step["seen"])]
    settled(lambda: [] if upstream.queries else ["none"], step.get("limit", 1.5), 0.02)
    run.judge(number, step, f"seen {step['seen']}", {"query": upstream.queries[-1] if upstream.queries else "none"})


# ---- files and the process ----


def file_has(run: Run, number: int, step: Step) -> None:
    name, pattern = step["file_has"]
    path = run.folder / name

    def look() -> list[str]:
        found = path.is_file() and re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        return [] if found else [f"{name} lacks /{pattern}/"]

    run.check(number, settled(look, step.get("limit", 5), 0.1), "file_has")


def exits(run: Run, number: int, step: Step) -> None:
    status, wanted = run.server.wait(step.get("limit", 8)), step["exits"]
    good = status is not None and (status != 0 if wanted == "nonzero" else status == wanted)
    run.check(number, [] if good else [f"exit status {status}, wanted {wanted}"], "exits")


def alive(run: Run, number: int, step: Step) -> None:
    run.check(number, [] if run.server.status() is None else ["the server exited"], "alive")
