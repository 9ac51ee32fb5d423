"""Kubeconfigs at work: tokens, certificates and programs that follow each other, in front of an API server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fastdns.control import Signal, sleep
from fastdns.plugins.kubernetes.decode.objects import Sink
from fastdns.plugins.kubernetes.decode.stream import Stream
from fastdns.plugins.kubernetes.watch import kubeconfig, reflector
from fastdns.plugins.kubernetes.watch.address import ApiConfigError
from fastdns.plugins.kubernetes.watch.client import Client, Limits
from fastdns.plugins.kubernetes.watch.exec_plugin import Credential
from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig, Renewed
from tests.plugins.kubernetes.conftest import addresses, pair, run
from tests.shell import SHEBANG
from tests.waiting import LIMIT, until

OBJECTS = ["svc default/a 10.0.0.1"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(reflector, "LONGEST_PAUSE", 0.2)
    monkeypatch.setattr(kubeconfig, "PAUSE", 0.1)


PLUGIN = (
    SHEBANG
    + """
echo run >> {folder}/runs
token=$(cat {folder}/token)
printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s","expirationTimestamp":"%s"}}}}' \\
  "$token" "$(cat {folder}/expires)"
"""
)


def write_config(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}, {"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}, {"name": "off", "context": {"cluster": "dead", "user": "u"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


def exec_user(folder: Path, token: str, expires: float) -> dict[str, Any]:
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(folder=folder))
    plugin.chmod(0o755)
    (folder / "token").write_text(token)
    (folder / "expires").write_text(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires)))
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def test_a_context(fakekube: Any, follow: Any, tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="sesame")
    path = write_config(tmp_path, server.url, {"token": "sesame"})
    assert Kubeconfig(path, "off").address.port == 1
    recorder, _ = follow(Kubeconfig(path))
    assert addresses(recorder) == {"a": "10.0.0.1"}


def test_certificates_in_a_kubeconfig(fakekube: Any, follow: Any, certificates: Path, tmp_path: Path) -> None:
    server = fakekube(OBJECTS, tls=pair(certificates, "server"), client_ca=str(certificates / "ca.crt"))
    cert, key = pair(certificates, "client")
    user = {"client-certificate": cert, "client-key": key}
    follow(Kubeconfig(write_config(tmp_path, server.url, user, **{"certificate-authority": str(certificates / "ca.crt")})))


def test_exec_credentials_are_renewed_when_refused(fakekube: Any, follow: Any, tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    path = write_config(tmp_path, server.url, exec_user(tmp_path, "first", time.time() + 3600))
    recorder, _ = follow(Kubeconfig(path))
    assert runs(tmp_path) == 1
    (tmp_path / "token").write_text("second")
    server.token = "second"
    time.sleep(0.1)
    server.cut()
    server.apply("svc default/b 10.0.0.2")
    until(lambda: "b" in addresses(recorder))
    assert runs(tmp_path) == 2


def test_exec_credentials_are_renewed_before_they_end(fakekube: Any, follow: Any, tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    path = write_config(tmp_path, server.url, exec_user(tmp_path, "first", time.time() + 10))
    recorder, _ = follow(Kubeconfig(path))
    time.sleep(0.1)
    server.cut()
    server.apply("svc default/b 10.0.0.2")
    until(lambda: "b" in addresses(recorder))
    assert runs(tmp_path) >= 2


def test_a_failing_exec_plugin_is_tried_again(fakekube: Any, follow: Any, lines: list[str], tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    path = write_config(tmp_path, server.url, exec_user(tmp_path, "first", time.time() + 3600))
    (tmp_path / "plugin").rename(tmp_path / "hidden")
    _, lease = follow(Kubeconfig(path), wait=0)
    until(lambda: lines)
    assert "getting credentials: " in lines[0]
    (tmp_path / "hidden").rename(tmp_path / "plugin")
    assert lease.wait(LIMIT, say=False)


BAD_CONFIGS = [
    (None, r"stat .*/kubeconfig: no such file or directory"),
    ("{}", "current-context"),
    ("]", r"error loading config file \".*/kubeconfig\": yaml: 1:1: "),
]


@pytest.mark.parametrize(("text", "said"), BAD_CONFIGS)
def test_bad_kubeconfigs(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ApiConfigError, match=said):
        Kubeconfig(str(path))


def test_an_unknown_context(tmp_path: Path) -> None:
    path = write_config(tmp_path, "http://127.0.0.1:1", {})
    with pytest.raises(ApiConfigError, match="nowhere"):
        Kubeconfig(path, "nowhere")


# ---- following ----


def follow_another(server: Any, recorder: Any, token: str, name: str = "b") -> None:
    """From now on only this token is good; a new service must arrive all the same."""
    server.token = token
    time.sleep(0.1)
    server.cut()
    server.apply(f"svc default/{name} 10.0.0.2")
    until(lambda: name in addresses(recorder))


def test_the_file_is_read_again(fakekube: Any, follow: Any, lines: list[str], tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    recorder, _ = follow(Kubeconfig(write_config(tmp_path, server.url, {"token": "first"})))
    write_config(tmp_path, server.url, {"token": "second"})
    follow_another(server, recorder, "second")
    assert lines == []


def test_a_file_that_breaks_changes_nothing(fakekube: Any, follow: Any, lines: list[str], tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    path = write_config(tmp_path, server.url, {"token": "first"})
    recorder, _ = follow(Kubeconfig(path))
    Path(path).write_text("{")
    follow_another(server, recorder, "first")
    assert len(lines) == 1
    assert f'kubeconfig not read again: error loading config file "{path}": yaml: ' in lines[0]


def test_a_token_file_is_followed(fakekube: Any, follow: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    server = fakekube(OBJECTS, token="first")
    recorder, _ = follow(Kubeconfig(write_config(tmp_path, server.url, {"tokenFile": "token"})))
    (tmp_path / "token").write_text("second\n")
    follow_another(server, recorder, "second")


def test_a_token_file_may_come_later(fakekube: Any, follow: Any, lines: list[str], tmp_path: Path) -> None:
    server = fakekube(OBJECTS, token="first")
    _, lease = follow(Kubeconfig(write_config(tmp_path, server.url, {"tokenFile": "token"})), wait=0)
    until(lambda: lines)
    assert f"open {tmp_path}/token: no such file or directory" in lines[0]
    (tmp_path / "token").write_text("first")
    assert lease.wait(LIMIT, say=False)


def certificate_user(folder: Path, certificates: Path, name: str) -> dict[str, Any]:
    """An exec plugin that gives the certificate whose name stands in the file `name`."""
    (folder / "name").write_text(name)
    (folder / "plugin").write_text(
        f"""#!/usr/bin/env python3
import json, pathlib
name = pathlib.Path("{folder}/name").read_text()
read = lambda end: pathlib.Path(f"{certificates}/{{name}}.{{end}}").read_text()
status = {{"clientCertificateData": read("crt"), "clientKeyData": read("key")}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""
    )
    (folder / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never"}}


def test_certificates_of_an_exec_plugin(fakekube: Any, follow: Any, certificates: Path, tmp_path: Path) -> None:
    server = fakekube(OBJECTS, tls=pair(certificates, "server"), client_ca=str(certificates / "ca.crt"))
    user = certificate_user(tmp_path, certificates, "client")
    api = Kubeconfig(write_config(tmp_path, server.url, user, **{"certificate-authority": str(certificates / "ca.crt")}))
    follow(api)
    before = api.context()
    (tmp_path / "name").write_text("other")
    time.sleep(0.1)
    assert run(api.refused())
    assert api.context() is not before


def test_certificates_in_files_are_read_again(certificates: Path, tmp_path: Path) -> None:
    for end in ("crt", "key"):
        (tmp_path / f"client.{end}").write_bytes((certificates / f"client.{end}").read_bytes())
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    api = Kubeconfig(write_config(tmp_path, "https://127.0.0.1:1", user, **{"certificate-authority": str(certificates / "ca.crt")}))
    before = api.context()
    assert api.context() is before
    (tmp_path / "client.key").write_bytes((certificates / "other.key").read_bytes())
    assert api.context() is before, "half of a pair was replaced"
    (tmp_path / "client.crt").write_bytes((certificates / "other.crt").read_bytes())
    assert api.context() is not before


def test_an_encrypted_key_is_an_error(certificates: Path, tmp_path: Path) -> None:
    words = ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", str(certificates / "client.key"), "-out", str(tmp_path / "key")]
    subprocess.run(words, check=True, capture_output=True)
    user = {"client-certificate": str(certificates / "client.crt"), "client-key": "key"}
    api = Kubeconfig(write_config(tmp_path, "https://127.0.0.1:1", user))
    with pytest.raises(OSError, match=f"^client certificate of {tmp_path}/kubeconfig: "):
        api.context()


def test_connections_are_not_used_for_another_server(fakekube: Any, tmp_path: Path) -> None:
    """What is idle goes to where the file pointed before."""
    servers = [fakekube([f"svc default/{name} 10.0.0.1"]) for name in ("old", "new")]
    client = Client(Kubeconfig(write_config(tmp_path, servers[0].url, {})), Limits())

    async def names() -> str:
        reply = await client.get("/api/v1/services", "application/json")
        stream = Stream(Sink(), 0)
        stream.begin_raw(reply.length)
        await reply.body(stream, LIMIT, lambda: True)
        return stream.take_raw().decode()

    async def twice() -> tuple[str, str]:
        first = await names()
        assert client.idle
        write_config(tmp_path, servers[1].url, {})
        return first, await names()

    first, second = run(twice())
    client.close()
    assert '"old"' in first
    assert '"new"' in second


# ---- renewal ----


def together(*coroutines: Any) -> list[str]:
    """Run coroutines at once; their errors."""
    ended: list[str] = []

    async def one(coroutine: Any) -> None:
        try:
            await coroutine
            ended.append("")
        except OSError as error:
            ended.append(str(error))

    async def all_of_them() -> None:
        await asyncio.gather(*(one(coroutine) for coroutine in coroutines))

    asyncio.run(all_of_them())
    return ended


def test_one_fetch_for_all_who_wait() -> None:
    fetched = 0

    async def fetch() -> Credential:
        nonlocal fetched
        fetched += 1
        await sleep(0.05)
        return Credential("Bearer a")

    renewed = Renewed(fetch)
    assert together(*(renewed.prepare() for _ in range(5))) == [""] * 5
    assert (fetched, renewed.current.authorization) == (1, "Bearer a")


def test_a_failure_is_not_repeated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig, "PAUSE", 0.3)
    fetched = 0

    async def fetch() -> Credential:
        nonlocal fetched
        fetched += 1
        raise OSError("no")

    renewed = Renewed(fetch)
    begun = time.monotonic()
    assert together(*(renewed.prepare() for _ in range(3))) == ["getting credentials: no"] * 3
    assert together(renewed.prepare()) == ["getting credentials: no"]
    assert fetched == 1 or time.monotonic() - begun > 0.3
    time.sleep(0.35)
    together(renewed.prepare())
    assert fetched >= 2


def test_what_has_not_ended_yet_is_used_when_renewal_fails() -> None:
    given = iter([Credential("Bearer a", expires=time.time() + 10)])

    async def fetch() -> Credential:
        for one in given:
            return one
        raise OSError("no")

    renewed = Renewed(fetch)
    assert together(renewed.prepare()) == [""]
    time.sleep(0.11)
    assert together(renewed.prepare()) == [""]
    assert renewed.failure
    renewed.credential = Credential("Bearer a", expires=time.time() - 1)
    assert together(renewed.prepare()) == ["getting credentials: no"]


def test_another_goes_on_when_the_one_who_fetches_is_cancelled() -> None:
    fetched: list[int] = []
    ended: list[str] = []

    async def fetch() -> Credential:
        fetched.append(1)
        await sleep(None if len(fetched) == 1 else 0.01, Signal())
        return Credential("Bearer a")

    renewed = Renewed(fetch)

    async def one() -> None:
        await renewed.prepare()
        ended.append(renewed.current.authorization)

    async def both() -> None:
        first = asyncio.create_task(one())
        second = asyncio.create_task(one())
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(both())
    assert (ended, len(fetched)) == (["Bearer a"], 2)


# ---- without the packages ----

BLOCKER = "import sys\nfor name in ('kubernetes', 'prometheus_client'):\n    sys.modules[name] = None\n"
REPORT = """import sys
from fastdns.telemetry.log import write
def setup(controller):
    controller.on_started(lambda: write(f"blocked {sys.modules['kubernetes'] is None and sys.modules['prometheus_client'] is None}"))
"""


def test_a_server_needs_neither_kubernetes_nor_prometheus_client(fakekube: Any, serve: Any, tmp_path: Path) -> None:
    api = fakekube(["ns default", *OBJECTS], token="sesame")
    path = write_config(tmp_path, api.url, exec_user(tmp_path, "sesame", time.time() + 3600))
    (tmp_path / "blocker").mkdir()
    (tmp_path / "blocker" / "sitecustomize.py").write_text(BLOCKER)
    (tmp_path / "report.py").write_text(REPORT)
    corefile = (
        f".:{{port}} {{\n bind 127.0.0.1\n prometheus 127.0.0.1:0\n kubernetes cluster.local {{\n  kubeconfig {path}\n }}\n plugin {tmp_path}/report.py\n}}\n"
    )
    server = serve(corefile, env={"PYTHONPATH": str(tmp_path / "blocker")})
    server.wait_log(r"^blocked True$")
    answer = server.query("a.default.svc.cluster.local.")
    assert [str(record) for rrset in answer.answer for record in rrset] == ["10.0.0.1"]
    assert runs(tmp_path) == 1


def test_no_program_runs_before_the_first_request(tmp_path: Path) -> None:
    """`fastdns check` and a reload read the file only."""
    Kubeconfig(write_config(tmp_path, "http://127.0.0.1:1", exec_user(tmp_path, "first", time.time() + 3600)))
    assert not (tmp_path / "runs").exists()
