"""Log lines as JSON: their members, what is escaped, and their times."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fastdns.telemetry import log_line
from tests.preload import Preload, environment

#: What ends a line or steers a terminal.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
PROGRAM = """
import sys
from fastdns.telemetry import log_line
log_line.set_json(True)
for _ in sys.stdin:
    print(log_line.compose("", "", "").decode(), flush=True)
"""
CLOCK = Path(__file__).parent.parent / "robustness" / "clock.c"


@pytest.fixture(autouse=True)
def as_json() -> Iterator[None]:
    log_line.set_json(True)
    yield
    log_line.set_json(False)


@pytest.mark.parametrize(("level", "shown"), [("", "INFO"), ("DEBUG", "DEBUG"), ("INFO", "INFO"), ("WARNING", "WARN"), ("ERROR", "ERROR"), ("FATAL", "FATAL")])
def test_members_and_their_order(level: str, shown: str) -> None:
    assert list(json.loads(log_line.compose(level, "", "x")).items())[1:] == [("level", shown), ("msg", "x")]
    assert list(json.loads(log_line.compose(level, "cache", "x")).items())[1:] == [("level", shown), ("msg", "x"), ("plugin", "cache")]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("", ""),
        ('say "a\\b" /', 'say \\"a\\\\b\\" /'),
        ("a\nb\r\tc\x00\x1f", "a\\nb\\u000d\\u0009c\\u0000\\u001f"),
        ("del \x7f csi \x9b \x80 nbsp \xa0", "del \\u007f csi \\u009b \\u0080 nbsp \xa0"),
        ("lines \u2027\u2028\u2029\u202a", "lines \u2027\\u2028\\u2029\u202a"),
        ("é ‘x’ 😀 \U0010ffff \ud7ff \ue000", "é ‘x’ 😀 \U0010ffff \ud7ff \ue000"),
        ("half \ud800", "half \\\\ud800"),
    ],
)
def test_text_is_escaped(text: str, inside: str) -> None:
    line = log_line.compose("INFO", text[:10], text).decode()
    assert f'"msg":"{inside}"' in line
    read = json.loads(line)
    assert read["msg"] == text.replace("\ud800", "\\ud800")
    assert not CONTROLS.search(line)


def test_a_line_is_whole_whatever_the_text() -> None:
    """The text is cut at the end of a character, the line is JSON all the same, and its longest fits."""
    for text, kept in (("x" * 2049, "x" * 2048), ("x" + "ä" * 1024, "x" + "ä" * 1023), ("\x00" * 9999, "\x00" * 2048), ('"' * 2048, '"' * 2048)):
        assert json.loads(log_line.compose("INFO", "\x01" * 99, text))["msg"] == kept
    assert json.loads(log_line.compose("INFO", "\x01" * 99, ""))["plugin"] == "\x01" * 64


def test_times(tmp_path: Path) -> None:
    """First and last days of months, leap days, of 1970 to 2400: as the library of Python has them."""
    later, earlier = timedelta(days=1, seconds=-5), timedelta(seconds=-5)
    days = [datetime(year, month, 1, tzinfo=UTC) for year in (1970, 1999, 2000, 2024, 2026, 2038, 2100, 2400) for month in range(1, 13)]
    moments = [day + shift for day in days for shift in (-earlier, later)] + [day + earlier for day in days[1:]]
    preload = Preload(CLOCK, tmp_path)
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(preload), text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for moment in moments:
            shift = int(moment.timestamp() - time.time())
            preload.set(shift)
            before = time.time() + shift
            child.stdin.write("\n")
            child.stdin.flush()
            text = json.loads(child.stdout.readline())["time"]
            after = time.time() + shift
            assert len(text) == len("2026-11-23T13:24:42.012345678Z")
            assert before - 1e-3 <= datetime.fromisoformat(text).timestamp() <= after + 1e-3, moment
        assert preload.count() >= len(moments)
        child.stdin.close()
    preload.close()
