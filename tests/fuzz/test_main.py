"""What `make fuzz-targets` shows of a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import REPORT_LINES, failure

FUZZED = "INFO: Running with entropic power schedule\n#2\tINITED cov: 5\n" + "#3\tNEW    cov: 6\n" * 2000
FRAMES = "".join(f"    #{at} 0x7f in __pyx_f_function /fastdns/build/cython/a.c:{at}\n" for at in range(200))


@pytest.mark.parametrize(
    "first",
    [
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60",
        "==7== ERROR: libFuzzer: timeout after 10 seconds",
        "==7==ERROR: LeakSanitizer: detected memory leaks",
        "build/cython/a.c:9:3: runtime error: index 5 out of bounds for type 'int [4]'",
        "==fuzz== a zone that was received cannot be received again",
    ],
)
def test_the_beginning_of_the_report_and_the_input(first: str, tmp_path: Path) -> None:
    path = tmp_path / "transfer-crash-1"
    path.write_bytes(b"\0" * 300)  # libFuzzer itself prints up to 256 octets
    said = failure(f"{FUZZED}{first}\n{FRAMES}artifact_prefix='x'; Test unit written to {path}\n")
    lines = said.splitlines()
    assert lines[0] == first
    assert lines[1:REPORT_LINES] == FRAMES.splitlines()[: REPORT_LINES - 1]
    assert lines[REPORT_LINES:] == [f"input: {path}", f"in base64: {'AAAA' * 100}"]


def test_without_a_report_the_end_of_the_output() -> None:
    assert failure(FUZZED + "Killed\n").splitlines() == ["#3\tNEW    cov: 6"] * (REPORT_LINES - 1) + ["Killed"]
