"""Servers under test: which there are, what they refuse, how they start and end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastdns.bench import measure
from fastdns.bench.servers import ADAPTERS, Listen, Running, StartError, Work, Zone, subject

PROBE = ("www.example.org.", 1)
WHOAMI = Work("whoami", ".:{port} {\n    {bind}\n    whoami\n}\n", PROBE, needs=("whoami",))
ZONE = Work("zone", "", PROBE, zone=Zone("example.org.", list, Path("/nowhere")))
FORWARD = Work("forward", "", PROBE, upstream=5353)
PYTHON = Work("Python", "", PROBE, alone="a Python plugin")


@pytest.fixture
def zone(tmp_path: Path) -> Work:
    """Its file is written when a server asks where it is."""
    text = ["$ORIGIN example.org.\n@ 5 SOA ns h 1 1 1 1 1\n", "@ 5 NS ns\nwww 5 A 10.0.0.7\n"]
    (tmp_path / "zones").mkdir()
    return Work("zone", "", PROBE, zone=Zone("example.org.", lambda: text, tmp_path / "zones"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Stands for a peer's program: says what plugins it has, and ends at once."""
    path = tmp_path / "program"
    path.write_text('#!/bin/sh\n[ "$1" = -plugins ] && echo dns.whoami && exit\necho broken configuration\nexit 3\n')
    path.chmod(0o755)
    return path


def test_names_that_are_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown server 'bind9': one of fastdns, coredns, "):
        subject("bind9=/usr/sbin/named")


@pytest.mark.parametrize("name", ["coredns", "knotd", "nsd", "unbound"])
def test_peers_that_are_not_installed_say_so(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ADAPTERS[name], "PLACES", ())
    assert subject(name).missing() == f"{name} is not installed"
    assert subject(f"{name}={tmp_path}/{name}").missing() == f"{tmp_path}/{name} is not a program"


@pytest.mark.parametrize(
    ("name", "work", "refusal"),
    [
        ("coredns", WHOAMI, ""),
        ("coredns", PYTHON, "does other work: a Python plugin"),
        ("coredns", Work("file", "", PROBE, needs=("whoami", "file")), "has no plugin file built in (coredns -plugins lists those that are)"),
        ("fastdns", Work("file", "", PROBE, needs=("file",)), "has no plugin file built in (fastdns -plugins lists those that are)"),
        ("knotd", ZONE, ""),
        ("knotd", FORWARD, "serves zones only, and this work is none"),
        ("nsd", WHOAMI, "serves zones only, and this work is none"),
        ("unbound", ZONE, ""),
        ("unbound", FORWARD, ""),
        ("unbound", WHOAMI, "forwards or serves zones, and this work is neither"),
        ("floor", PYTHON, ""),
        ("relay", FORWARD, ""),
        ("relay", ZONE, "has nothing to relay to in this work"),
    ],
)
def test_what_servers_refuse(program: Path, name: str, work: Work, refusal: str) -> None:
    adapter = subject(name if name in ("floor", "relay") else f"{name}={program}")
    assert adapter.refuses(work) == refusal


@pytest.mark.parametrize("name", ["coredns", "fastdns", "knotd", "nsd", "unbound"])
@pytest.mark.parametrize("wildcard", [False, True])
def test_configurations_name_the_address(program: Path, zone: Work, tmp_path: Path, name: str, wildcard: bool) -> None:
    """What the peers make of them is tried where they are installed: test_peers."""
    work = WHOAMI if name in ("coredns", "fastdns") else zone
    command = subject(f"{name}={program}").command(work, Listen(5399, wildcard, 2), tmp_path)
    assert command[0] == str(program)
    text = "".join(path.read_text() for path in tmp_path.iterdir() if path.name in ("Corefile", f"{name}.conf"))
    assert "5399" in text
    if name != "unbound":  # which names 127.0.0.0/8 for access
        assert ("127.0.0.1" in text) != wildcard


def test_fastdns_starts_answers_and_ends() -> None:
    with Running(subject("fastdns"), WHOAMI, sorted(os.sched_getaffinity(0))[:1]) as running:
        assert running.ready > 0
        assert running.answers("example.org.", 1) == []
        assert os.sched_getaffinity(running.pid) == {min(os.sched_getaffinity(0))}
        assert measure.memory_mb(running.pid) > 1
        folder = running.folder
    assert running.process.returncode == 0
    assert not folder.exists()


def test_a_server_that_ends_is_told_with_its_output(program: Path) -> None:
    with pytest.raises(StartError, match=r"coredns ended with 3:\nbroken configuration"):
        Running(subject(f"coredns={program}"), WHOAMI, [])


def test_a_server_that_does_not_answer_is_given_up() -> None:
    refused = Work("refused", "elsewhere.example.:{port} {\n    {bind}\n    whoami\n}\n", PROBE)
    with pytest.raises(StartError, match=r"fastdns did not answer www\.example\.org\. within 0\.5 s"):
        Running(subject("fastdns"), refused, [], limit=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["knotd", "nsd", "unbound"])
@pytest.mark.parametrize("wildcard", [False, True])
def test_peers(name: str, zone: Work, wildcard: bool) -> None:
    adapter = subject(name)
    if adapter.missing():
        pytest.skip(adapter.missing())
    with Running(adapter, zone, [], wildcard=wildcard) as running:
        assert running.answers("www.example.org.", 1) == ["10.0.0.7"]
