"""The metrics page in Prometheus's text format 0.0.4, byte for byte as Prometheus's Go client prints it.

`prometheus_client` prints labels, numbers and `_created` differently, and importing it takes 4 MB. When a plugin has imported it, the metrics of
its default registry are part of the page.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator

from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric, registry

__all__ = ["CONTENT_TYPE", "number", "page"]

log = Log()

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

#: Name suffix, labels and value of one line of a family.
Sample = tuple[str, Iterable[tuple[str, str]], float]


def page() -> bytes:
    """All metric families that have samples, sorted by name."""
    families = dict(_native())
    for name, lines in _foreign():
        families.setdefault(name, lines)
    return "".join(line + "\n" for name in sorted(families) for line in families[name]).encode("utf-8", "backslashreplace")


def _native() -> Iterator[tuple[str, list[str]]]:
    for metric in list(registry.values()):
        try:
            children = metric.collect()
            lines = _lines(metric, children) if children else []
        except Exception as error:  # of a plugin, whose labels are no texts: the others are there
            log.warning(f"{metric.name} is left out of the metrics: {type(error).__name__}")
            continue
        if lines:
            yield metric.name, lines


def _lines(metric: Metric, children: Iterable[tuple[tuple[str, ...], float | tuple[list[int], float]]]) -> list[str]:
    samples: list[Sample] = []
    for values, value in children:
        labels = sorted(zip(metric.labels, values, strict=True))
        if isinstance(value, tuple):
            samples += _buckets(labels, metric.bounds, *value)
        else:
            samples.append(("", labels, value))
    return _family(metric.name, metric.help, metric.kind, samples)


def _buckets(labels: list[tuple[str, str]], bounds: tuple[float, ...], counts: list[int], total: float) -> Iterator[Sample]:
    """The label `le` is the last one. Counts of buckets are cumulative."""
    below = 0
    for bound, count in zip((*bounds, math.inf), counts, strict=True):
        below += count
        yield "_bucket", [*labels, ("le", number(bound))], below
    yield "_sum", labels, total
    yield "_count", labels, below


def _foreign() -> Iterator[tuple[str, list[str]]]:
    """Families of prometheus_client's default registry, without those of the process, which fastdns has itself."""
    client = sys.modules.get("prometheus_client")
    if client is None:
        return
    for family in client.REGISTRY.collect():
        if family.name.startswith(("process_", "python_")):
            continue
        name = family.name + "_total" if family.type == "counter" else family.name
        kind = {"unknown": "untyped", "info": "gauge", "stateset": "gauge", "gaugehistogram": "histogram"}.get(family.type, family.type)
        samples: list[Sample] = []
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            labels = sorted(item for item in sample.labels.items() if item[0] != "le")
            bound = sample.labels.get("le")
            labels += [("le", number(float(bound)))] if bound is not None else []
            samples.append((sample.name.removeprefix(name), labels, float(sample.value)))
        if samples:
            yield name, _family(name, family.documentation, kind, samples)


def _family(name: str, text: str, kind: str, samples: Iterable[Sample]) -> list[str]:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {escaped}", f"# TYPE {name} {kind}", *(_line(name + suffix, labels, value) for suffix, labels, value in samples)]


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    text = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels)
    return f"{name}{{{text}}} {number(value)}" if text else f"{name} {number(value)}"


def _escaped(text: str) -> str:
    if '"' in text or "\\" in text or "\n" in text:
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return text


def number(value: float) -> str:
    """As Go's ``strconv.FormatFloat(value, 'g', -1, 64)``: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return str(int(value)) if value == int(value) else repr(float(value))
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(float(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    if exponent:
        power = int(exponent)
    else:  # Python uses exponents from larger numbers on than Go
        power = len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
    digits = (whole + fraction).strip("0") if not exponent else (whole + fraction).rstrip("0")
    return f"{sign}{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{power:+03d}"
