"""dnsperf's query files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fastdns.bench.workload import Question, WorkloadError
from fastdns.bench.workloads.queryfile import read_queries

GOOD = """\
; a comment
www.example.org A

 example.org.\tmx ; another
a\\.b.example.org TYPE65
.  NS
\u00e4 A
"""
QUESTIONS = [("www.example.org.", 1), ("example.org.", 15), ("a\\.b.example.org.", 65), (".", 2), ("\\195\\164.", 1)]


def test_good_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "queries"
    path.write_text(GOOD, encoding="utf-8")
    assert list(read_queries(path)) == [Question(*asked) for asked in QUESTIONS]
    monkeypatch.setattr("sys.stdin", io.StringIO(GOOD))
    assert list(read_queries("-")) == [Question(*asked) for asked in QUESTIONS]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a A\nb\n", ":2: a name and a type are expected, found 'b'"),
        ("\n\na A IN\n", ":3: a name and a type are expected, found 'a A IN'"),
        ("a BOGUS\n", ":1: no record type: BOGUS"),
        ("a TYPE65536\n", ":1: no record type: TYPE65536"),
        (f"{'x' * 64}.org A\n", ":1: "),
        ("a..b A\n", ":1: "),
    ],
)
def test_bad_lines(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "queries"
    path.write_text(text)
    with pytest.raises(WorkloadError) as raised:
        list(read_queries(path))
    assert str(raised.value).startswith(f"{path}{complaint}")


def test_a_missing_file() -> None:
    with pytest.raises(WorkloadError, match=r"^/nowhere/queries: No such file or directory$"):
        list(read_queries("/nowhere/queries"))
