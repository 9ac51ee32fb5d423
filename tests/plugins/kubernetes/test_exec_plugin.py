"""Exec plugins: what they get, what they may print, and how they fail."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from fastdns.plugins.kubernetes.watch import exec_plugin
from fastdns.plugins.kubernetes.watch.clientcmd import Cluster, ExecConfig, Pem
from fastdns.plugins.kubernetes.watch.exec_plugin import Credential, credential, parse
from tests.plugins.kubernetes.conftest import run
from tests.shell import SHEBANG
from tests.waiting import until

VERSION = "client.authentication.k8s.io/v1"
CLUSTER = Cluster("c", "https://api.test:6443")


def plugin(folder: Path, text: str, shell: str = SHEBANG, **more: Any) -> ExecConfig:
    path = folder / "plugin"
    path.write_text(f"{shell}\n{text}\n")
    path.chmod(0o755)
    return ExecConfig(VERSION, str(path), folder=str(folder), **more)


def printed(**status: Any) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


PYTHON = "#!/usr/bin/env python3"
#: Prints what it got as its token.
TELL = """
import json, os, sys
got = {"info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]), "args": sys.argv[1:], "folder": os.getcwd(), "stdin": sys.stdin.read(),
       "files": sorted(int(fd) for fd in os.listdir("/proc/self/fd")), "extra": os.environ.get("EXTRA"), "session": os.getsid(0) == os.getpid()}
print(json.dumps({"apiVersion": got["info"]["apiVersion"], "kind": "ExecCredential", "status": {"token": json.dumps(got)}}))
"""


def told(config: ExecConfig, cluster: Cluster = CLUSTER) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(credential(config, cluster)).authorization.removeprefix("Bearer "))
    return answer


def test_what_a_plugin_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRA", "ours")
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", "ours")
    open_file = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(open_file, True)
    try:
        got = told(plugin(tmp_path, TELL, PYTHON, args=("a", "b c"), env=(("EXTRA", "x"), ("EXTRA", "y"))))
    finally:
        os.close(open_file)
    assert got == {
        "info": {"kind": "ExecCredential", "apiVersion": VERSION, "spec": {"interactive": False}},
        "args": ["a", "b c"],
        "folder": str(tmp_path),
        "stdin": "",
        "files": [0, 1, 2, 3],  # 3 is its own, of the folder that it lists
        "extra": "y",
        "session": True,
    }


def test_cluster_info(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("PEM")
    config = plugin(tmp_path, TELL, PYTHON, provide_cluster_info=True)
    assert told(config)["info"]["spec"]["cluster"] == {"server": "https://api.test:6443"}
    ca = base64.b64encode(b"PEM").decode()
    for pem in (Pem(path=str(tmp_path / "ca")), Pem(data="PEM")):
        cluster = Cluster("c", "https://a.test", pem, False, "b.test", "http://proxy.test", True, {"audience": ["x", 1]})
        assert told(config, cluster)["info"]["spec"]["cluster"] == {
            "server": "https://a.test",
            "certificate-authority-data": ca,
            "insecure-skip-tls-verify": True,
            "tls-server-name": "b.test",
            "proxy-url": "http://proxy.test",
            "disable-compression": True,
            "config": {"audience": ["x", 1]},
        }
    with pytest.raises(OSError, match=r"^failed to load CA bundle for execProvider: "):
        told(config, Cluster("c", "https://a.test", Pem(path=str(tmp_path / "nowhere"))))
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(OSError, match=r"^encode ExecCredentials: "):
        told(config, Cluster("c", "https://a.test", exec_config=endless))


GOOD: list[tuple[dict[str, Any], Credential]] = [
    ({"token": "a"}, Credential("Bearer a")),
    ({"token": " a\n"}, Credential("Bearer a")),
    ({"token": "a", "expirationTimestamp": None}, Credential("Bearer a")),
    ({"token": "a", "expirationTimestamp": "2026-01-02T03:04:05Z"}, Credential("Bearer a", expires=1767323045.0)),
    ({"token": "a", "expirationTimestamp": "2026-01-02T05:04:05.25+02:00"}, Credential("Bearer a", expires=1767323045.25)),
    ({"clientCertificateData": "c", "clientKeyData": "k"}, Credential(certificate="c\nk")),
    ({"token": "a", "clientCertificateData": "c", "clientKeyData": "k"}, Credential("Bearer a", "c\nk")),
]


@pytest.mark.parametrize(("status", "expected"), GOOD)
def test_what_a_plugin_may_print(status: dict[str, Any], expected: Credential) -> None:
    assert parse(ExecConfig(VERSION, "x"), printed(**status).encode()) == expected


BAD: list[tuple[str, str]] = [
    ("", "^decoding stdout: "),
    ("\xff", "^decoding stdout: "),
    ("[" * 100_000, "^decoding stdout: "),
    ("[]", "^decoding stdout: no ExecCredential$"),
    ('{"kind": "Status"}', "^decoding stdout: no ExecCredential$"),
    ('{"kind": "ExecCredential"}', f"^exec plugin is configured to use API version {VERSION}, plugin returned version None$"),
    (json.dumps({"kind": "ExecCredential", "apiVersion": VERSION}), "^exec plugin didn't return a status field$"),
    (printed(), "^exec plugin didn't return a token or cert/key pair$"),
    (printed(token=""), "^exec plugin didn't return a token or cert/key pair$"),
    (printed(token=1), "^decoding stdout: .* must be strings$"),
    (printed(token="a\nb"), "^the token is empty or has control characters$"),
    (printed(token=" "), "^the token is empty or has control characters$"),
    (printed(clientCertificateData="c"), "^exec plugin returned only certificate or key, not both$"),
    (printed(token="a", clientKeyData="k"), "^exec plugin returned only certificate or key, not both$"),
    (printed(token="a", expirationTimestamp="soon"), "^decoding stdout: expirationTimestamp: "),
    (printed(token="a", expirationTimestamp=1), "^decoding stdout: expirationTimestamp: "),
]


@pytest.mark.parametrize(("output", "expected"), BAD)
def test_what_a_plugin_may_not_print(output: str, expected: str) -> None:
    with pytest.raises(OSError, match=expected):
        parse(ExecConfig(VERSION, "x"), output.encode("latin-1"))


def failure(config: ExecConfig) -> str:
    with pytest.raises(OSError) as caught:
        run(credential(config, CLUSTER))
    return str(caught.value)


def test_no_such_program(tmp_path: Path) -> None:
    path = tmp_path / "nowhere"
    assert failure(ExecConfig(VERSION, str(path), folder="/")) == f"exec: executable {path} not found"
    assert failure(ExecConfig(VERSION, "no-such-program", install_hint="apt \x1b[1minstall\n it", folder="/")) == (
        "exec: executable no-such-program not found; apt [1minstall it"
    )
    path.write_text("")
    assert failure(ExecConfig(VERSION, str(path), folder="/")) == f"exec: executable {path} not found"


def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    assert failure(ExecConfig(VERSION, "/bin/sh", args=("\0",), folder="/")) == "exec: embedded null byte"
    assert failure(ExecConfig(VERSION, "/bin/sh", env=(("a=b", ""),), folder="/")) == "exec: illegal environment variable name"
    assert failure(ExecConfig(VERSION, "/bin/sh", env=(("a", "x" * 1_000_000),), folder="/")) == "exec: argument list too long"


def test_programs_that_fail(tmp_path: Path) -> None:
    config = plugin(tmp_path, "echo log in; echo first >&2; echo 'please log in' >&2; exit 3")
    assert failure(config) == f"exec: executable {config.command} failed with exit code 3: first please log in"
    config = plugin(tmp_path, "kill -9 $$")
    assert failure(config) == f"exec: executable {config.command} failed with exit code -9"
    config = plugin(tmp_path, "head -c 100000 /dev/zero | tr '\\0' x >&2; echo ' end' >&2; exit 1")
    assert failure(config).endswith("xxx end")
    assert len(failure(config)) < 1200


def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "TIMEOUT", 0.3)
    config = plugin(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; exec sleep 600")
    assert failure(config) == f"exec: executable {config.command} did not end within 0 s"
    started = int((tmp_path / "pid").read_text())
    until(lambda: not alive(started))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "no pidfd"])
def test_a_program_is_over_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pidfd: bool) -> None:
    """What it leaves running may keep its output open; and a closed output is not the end."""
    if not pidfd:

        def refuse(pid: int) -> int:
            raise PermissionError

        monkeypatch.setattr(os, "pidfd_open", refuse)
    begun = time.monotonic()
    config = plugin(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; echo '{printed(token='a')}'")
    try:
        assert run(credential(config, CLUSTER)) == Credential("Bearer a")
        assert time.monotonic() - begun < exec_plugin.TIMEOUT
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)
    config = plugin(tmp_path, f"echo '{printed(token='a')}'; exec >&- 2>&-; sleep 0.3; exit 1")
    assert failure(config) == f"exec: executable {config.command} failed with exit code 1"


def test_long_outputs(tmp_path: Path) -> None:
    token = "x" * 300_000
    (tmp_path / "out").write_text(printed(token=token))
    assert run(credential(plugin(tmp_path, f"cat {tmp_path}/out"), CLUSTER)).authorization == f"Bearer {token}"
    config = plugin(tmp_path, "cat /dev/zero")
    assert failure(config) == f"exec: executable {config.command} printed more than {exec_plugin.OUTPUT_MAX} octets"


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    config = plugin(tmp_path, f"echo '{printed(token='a')}'")
    run(credential(config, CLUSTER))
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(credential(config, CLUSTER))
    assert sorted(os.listdir("/proc/self/fd")) == before
