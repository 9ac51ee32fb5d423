"""The sample cluster of `make run` answers what it promises."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import fastdns
from tests.server import Server

SAMPLE = Path(fastdns.__file__).parent / "sample"


def test_every_query_that_make_run_prints(serve: Callable[..., Server], tmp_path: Path) -> None:
    shutil.copy(SAMPLE / "cluster.yaml", tmp_path)
    text = (SAMPLE / "Corefile").read_text().replace("\n. {", "\n.:{port} {").replace("cluster.yaml", str(tmp_path / "cluster.yaml"))
    server = serve(text)
    lines = [line for line in (SAMPLE / "queries.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) >= 10
    for line in lines:
        question, _, answers = line.partition(" = ")
        assert server.answers(*question.split()) == sorted(answers.split(" | ")), question
