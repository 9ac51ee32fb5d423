"""The command line: spec/corefile.md section 9."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastdns import COREDNS_VERSION, __version__
from fastdns.server import commands, flags
from fastdns.setup import registry
from tests.waiting import LIMIT

#: What native modules are linked with.
LIBRARIES = ["quiche", "BoringSSL", "OpenSSL", "RE2", "libunbound", "nghttp2"]


def test_commands() -> None:
    """Each is known to the command line, has its flags and its help."""
    assert sorted(flags.COMMANDS) == sorted(commands.FLAGS) == sorted(commands.RUNS)
    assert all(f"  fastdns {name} " in commands.USAGE for name in flags.COMMANDS)


def test_forms() -> None:
    for words in (["-conf", "a", "-p", "54"], ["-conf=a", "-dns.port=54"], ["--conf", "a", "--p=54"], ["-p", "1", "-dns.port", "54", "-conf=a"]):
        asked = flags.parse(words)
        assert (asked.conf, asked.port, asked.rest) == ("a", "54", [])
    assert flags.parse([]).port == "53"
    assert flags.parse(["-quiet"]).quiet
    assert flags.parse(["-quiet=true", "-version=T"]).quiet
    assert not flags.parse(["-quiet=0"]).quiet
    assert flags.parse(["-quiet", "a", "-version"]).rest == ["a", "-version"]
    assert flags.parse(["--", "-quiet"]).rest == ["-quiet"]
    assert flags.parse(["-"]).rest == ["-"]
    assert flags.parse(["-conf", "-quiet"]).conf == "-quiet"
    assert flags.parse(["-workers", "3"]).workers == 3
    assert flags.parse([]).log_format == "text"
    assert flags.parse(["-log-format", "json"]).log_format == "json"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-x"], "flag provided but not defined: -x"),
        (["--cpu=3"], "flag provided but not defined: -cpu"),
        (["-conf"], "flag needs an argument: -conf"),
        (["---conf"], "bad flag syntax: ---conf"),
        (["-=x"], "bad flag syntax: -=x"),
        (["-quiet=maybe"], 'invalid boolean value "maybe" for -quiet: parse error'),
        (["-workers", "x"], 'invalid value "x" for flag -workers: parse error'),
        (["-workers", "0"], 'invalid value "0" for flag -workers: must be between 1 and 64'),
        (["-workers", "65"], 'invalid value "65" for flag -workers: must be between 1 and 64'),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    with pytest.raises(flags.FlagError) as caught:
        flags.parse(words)
    assert str(caught.value) == message


def run(*words: str, folder: Path | None = None, stdin: bytes | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "fastdns.server.cli", *words],
        capture_output=True,
        cwd=folder,
        timeout=LIMIT,
        **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),  # type: ignore[arg-type]
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_version_and_plugins() -> None:
    status, out, err = run("-version", "-plugins")
    lines = out.split("\n")
    assert (status, err) == (0, "")
    assert lines[0] == f"fastdns-{__version__}"
    assert lines[1].startswith("linux/")
    assert lines[1].count(", ") == 2
    assert [line.partition(": ")[0] for line in lines[2:-1]] == ["compiler", "optimization", "sanitizers", "cython", *LIBRARIES, "tls", "packages"]
    assert "not installed" not in out
    status, out, err = run("-plugins")
    names = out.split("\n")
    assert (status, err) == (0, "")
    assert names[-2:] == ["", ""]
    assert {"bind", "debug", "reload", "whoami"} <= set(names)
    listed = [name for name in names[:-2] if name != "on"]
    assert listed == sorted(listed)
    assert COREDNS_VERSION


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["-x"], 2, "flag provided but not defined: -x\nUsage of fastdns:\n"),
        (["-h"], 0, "Usage of fastdns:\n"),
        (["-help"], 0, "Usage of fastdns:\n"),
        (["foo", "bar"], 1, " extra command line arguments: [foo bar]\n"),
        (["-conf", "/nonexistent/Corefile"], 1, "loading Caddyfile via flag: open /nonexistent/Corefile: no such file or directory\n"),
        (["-conf", "/"], 1, "loading Caddyfile via flag: open /: is a directory\n"),
    ],
)
def test_exit(words: list[str], status: int, message: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (status, "")
    assert message in err


def test_every_directive_of_coredns_is_known() -> None:
    names = list(registry.in_tree())
    added = ["proxy", "rrl", "cookies", "blocklist", "filter_aaaa", "filter_a", "fqdn_policy", "k8s_gateway", "latency", "console", "top", "slo"]
    added += ["recorder", "shadow", "siit", "dynupdate", "unbound", "test"]
    assert len(names) == 60 + len(added)
    assert names[0] == "root"
    assert names[-3:] == ["nomad", "unbound", "test"]
    assert all(registry.known(name) for name in names)
    assert not registry.known("startup")
