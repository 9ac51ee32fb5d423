"""What is built as quiche: the sources that Cargo.lock names, with a few statements changed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.quic_library import CRATE, edit, unlock

STREAMS = """
                self.streams.sub_tx_buffered(len);

                #[cfg(feature = "fuzzing")]
                // Coalesce STREAM frames when fuzzing.
                if left > frame::MAX_STREAM_OVERHEAD {
                    continue;
                }
"""
PADDING = """
            done += pad_len;
"""
PATHS = """
        let (pid_to_remove, _) = self
            .paths
            .iter()
            .find(|(_, p)| p.unused())
            .ok_or(Error::Done)?;
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text(STREAMS + PADDING)
    (tmp_path / "src/path.rs").write_text(PATHS)
    return tmp_path


def test_streams_share_packets_in_every_build(sources: Path) -> None:
    edit(sources)
    lines = [line.strip() for line in (sources / "src/lib.rs").read_text().splitlines() if line.strip()]
    assert lines[:5] == ["self.streams.sub_tx_buffered(len);", "if left > 128 {", "continue;", "}", "done += pad_len;"]


def test_padding_counts_as_sent(sources: Path) -> None:
    edit(sources)
    assert "padded.max_send_bytes.saturating_sub(pad_len)" in (sources / "src/lib.rs").read_text()


def test_paths_that_were_left_make_room(sources: Path) -> None:
    edit(sources)
    assert ".filter(|(_, p)| !p.active())" in (sources / "src/path.rs").read_text()


@pytest.mark.parametrize("text", [pytest.param("", id="none"), pytest.param(STREAMS * 2, id="two")])
def test_another_quiche_ends_the_build(sources: Path, text: str) -> None:
    (sources / "src/lib.rs").write_text(text)
    with pytest.raises(SystemExit, match=r"src/lib\.rs has [02] places for it, not 1"):
        edit(sources)
    assert (sources / "src/lib.rs").read_text() == text


def test_only_quiche_comes_from_a_folder() -> None:
    """With such a Cargo.lock cargo builds the others as they are locked."""
    before = tomllib.loads((CRATE / "Cargo.lock").read_text())
    after = tomllib.loads(unlock((CRATE / "Cargo.lock").read_text(), "quiche"))
    changed = [(old, new) for old, new in zip(before["package"], after["package"], strict=True) if old != new]
    assert [new["name"] for _, new in changed] == ["quiche"]
    assert changed[0][0].keys() - changed[0][1].keys() == {"source", "checksum"}
