"""Lines for standard output through a thread of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fastdns.telemetry import log_line, log_writer
from tests.waiting import LIMIT, until


def put(line: str) -> bool:
    """A line without level and plugin."""
    return log_line.put("", "", line)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that lines go to; what a test leaves in the rings goes to the bin."""
    read, write = os.pipe()
    assert log_writer.flush(LIMIT)
    before = log_writer.set_output(write)
    yield read, write
    with open(os.devnull, "w") as devnull:
        log_writer.set_output(devnull.fileno())
        os.close(read)  # a writer that is stuck gets EPIPE
        assert log_writer.flush(LIMIT)
        log_writer.set_output(before)
    os.close(write)


def test_lines_come_in_order_and_whole(pipe: tuple[int, int]) -> None:
    for number in range(300):
        assert put(f"[INFO] line {number} ä")
    assert log_writer.flush(LIMIT)
    assert os.read(pipe[0], 65536).decode() == "".join(f"[INFO] line {number} ä\n" for number in range(300))


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("", ""),
        ("tab\tstays, so does ‘this’ \u00e9", "tab\tstays, so does ‘this’ \u00e9"),
        ("a\nb\r\x1b[31m\x00\x7f", "a\\010b\\013\\027[31m\\000\\127"),
        ("csi \x9b nel \x85", "csi \\194\\155 nel \\194\\133"),
        ("half \udc80 lines \u2028", "half \\udc80 lines \\u2028"),
        ('100% "quoted" \\', '100% "quoted" \\'),
        ("x" * 2048, "x" * 2048),
        ("x" * 2049, "x" * 2048),
        ("x" + "ä" * 1024, "x" + "ä" * 1023),
        ("x" * 100_000, "x" * 2048),
    ],
)
def test_a_line_is_one_line_of_text(pipe: tuple[int, int], line: str, written: str) -> None:
    assert put(line)
    assert log_writer.flush(LIMIT)
    assert os.read(pipe[0], 65536).decode() == written + "\n"


def test_a_stuck_pipe_drops_lines_and_counts_them(pipe: tuple[int, int]) -> None:
    before = log_writer.dropped()
    count, line = 8000, "x" * 99
    kept = sum(put(line) for _ in range(count))  # for ever, if it waited for the reader that is this thread
    assert not log_writer.flush(0.05)
    assert 0 < kept < count
    assert log_writer.dropped() - before == count - kept
    got = 0
    while got < kept * 100:  # the reader is back: nothing that was taken is lost
        chunk = os.read(pipe[0], 1 << 20)
        assert not chunk.strip(b"x\n")
        got += len(chunk)
    assert log_writer.flush(LIMIT)
    assert got == kept * 100
    assert put("again")
    assert log_writer.flush(LIMIT)
    assert os.read(pipe[0], 100) == b"again\n"


def test_a_pipe_that_would_block_is_waited_for(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    for _ in range(1500):
        assert put("x" * 99)
    assert not log_writer.flush(0.05)
    got = b""
    while len(got) < 150_000:
        got += os.read(pipe[0], 1 << 20)
    assert got == (b"x" * 99 + b"\n") * 1500


def test_lines_for_a_reader_that_is_gone_are_counted() -> None:
    assert log_writer.flush(LIMIT)
    read, write = os.pipe()
    os.close(read)
    dropped = log_writer.dropped()
    before = log_writer.set_output(write)
    try:
        put("one")
        put("two")
        until(lambda: log_writer.dropped() - dropped == 2)
        assert log_writer.flush(LIMIT)
    finally:
        log_writer.set_output(before)
        os.close(write)


def test_debug_is_a_switch() -> None:
    assert not log_writer.debugging()
    log_writer.set_debug(True)
    assert log_writer.debugging()
    log_writer.set_debug(False)
