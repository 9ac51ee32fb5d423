"""What is read of kubeadm, and the programs that tell another version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.kubeadm import reason

PREFLIGHT = """[preflight] Some fatal errors occurred:
\t[ERROR CoreDNSUnsupportedPlugins]: start version '1.14.7' not supported
\t[ERROR CoreDNSMigration]: CoreDNS will not be upgraded: start version '1.14.7' not supported
[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`
error: error execution phase preflight: preflight checks failed
To see the stack trace of this error execute with --v=5 or higher"""
PHASE = """W1127 19:29:58.422541 postupgrade.go:105] Using temporary directory /etc/kubernetes/tmp
error: error execution phase addon/coredns: unable to get list of changes to the configuration.: start version '1.14.7' not supported
To see the stack trace of this error execute with --v=5 or higher"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (PREFLIGHT, "CoreDNSUnsupportedPlugins, CoreDNSMigration"),
        (PHASE, "phase addon/coredns: unable to get list of changes to the configuration.: start version '1.14.7' not supported"),
    ],
)
def test_why_kubeadm_ends(said: str, why: str) -> None:
    assert reason(said) == why


def test_programs_of_the_release_before(tmp_path: Path) -> None:
    for package in programs.PACKAGES:
        (tmp_path / package.rpartition("/")[2]).write_bytes(b"\0gitVersion" + programs.VERSION.encode() + b"\0")
    folder = programs.previous(tmp_path)
    assert (folder / "kubeadm").read_bytes() == b"\0gitVersion" + programs.PREVIOUS.encode() + b"\0"
    assert not (folder / "agnhost").exists()
    assert folder == programs.previous(tmp_path)
