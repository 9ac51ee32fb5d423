"""Kubeconfig files: what a context says, beside the `kubernetes` package's loader; and files that will not do."""

from __future__ import annotations

import base64
import contextlib
import copy
import datetime
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastdns.plugins.kubernetes.watch.address import ApiConfigError
from fastdns.plugins.kubernetes.watch.clientcmd import load
from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig
from tests.plugins.kubernetes.conftest import run
from tests.shell import SHEBANG

CA, CERT, KEY = (f"-----BEGIN {name}-----\nAAAA\n-----END {name}-----\n" for name in ("CA", "CERTIFICATE", "KEY"))
SERVER = "https://api.test:6443"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def token_of(**claims: Any) -> str:
    """A JSON web token that nobody signed."""
    parts = (json.dumps({"alg": "none"}), json.dumps(claims), "signature")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


def document(user: Any, cluster: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}, {"name": "nobody", "context": {"cluster": "c", "user": ""}}],
    }


def write(folder: Path, content: Any) -> str:
    """A kubeconfig with what it may point to beside it."""
    later = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
    for name, text in (("ca.crt", CA), ("client.crt", CERT), ("client.key", KEY), ("token", "from-a-file")):
        (folder / name).write_text(text)
    (folder / "bin").mkdir()
    for name, printed in (
        ("token", '{"apiVersion":"%s","kind":"ExecCredential","status":{"token":"printed-$1-$EXTRA"}}'),
        ("pair", json.dumps({"apiVersion": "%s", "kind": "ExecCredential", "status": {"clientCertificateData": CERT, "clientKeyData": KEY}})),
    ):
        for version in ("v1", "v1beta1", "v1alpha1"):
            text = (printed % f"client.authentication.k8s.io/{version}").replace('"', '\\"').replace("\\n", "\\\\n")
            plugin = folder / "bin" / f"{name}-{version}"
            plugin.write_text(f'{SHEBANG}\nprintf %s "{text}"\n')
            plugin.chmod(0o755)
    (folder / "bin" / "gcp").write_text(f"""{SHEBANG}\necho '{{"credential": {{"access_token": "'$1'", "token_expiry": "{later}"}}}}'\n""")
    (folder / "bin" / "gcp").chmod(0o755)
    path = folder / "kubeconfig"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def seen_by_package(path: str, context: str) -> dict[str, Any]:
    """What the `kubernetes` package makes of a file."""
    from kubernetes.client import Configuration
    from kubernetes.config import kube_config

    configuration = Configuration()
    loader: Any = kube_config._get_kube_config_loader(filename=path, active_context=context or None)  # type: ignore[no-untyped-call]
    loader.load_and_set(configuration)
    keys = configuration.api_key or {}

    def text(file: str | None) -> str:
        return Path(file).read_text() if file else ""

    return {
        "server": configuration.host,
        "authorization": (keys.get("BearerToken") or keys.get("authorization", "")).strip(),
        "verify": bool(configuration.verify_ssl),
        "server name": configuration.tls_server_name or "",
        "ca": text(configuration.ssl_ca_cert),
        "certificate": text(configuration.cert_file) + text(configuration.key_file),
    }


def seen_by_us(path: str, context: str) -> dict[str, Any]:
    api = Kubeconfig(path, context)
    run(api.prepare())
    cluster, user, tls = api.config.cluster, api.config.user, api.address.tls
    certificate = api.credentials.current.certificate.replace("-----\n\n-----", "-----\n-----")
    return {
        "server": cluster.server.rstrip("/"),
        "authorization": api.authorization() or "",
        "verify": cluster.verify,
        "server name": cluster.tls_server_name,
        "ca": cluster.ca.read() if tls else "",
        "certificate": certificate or (user.certificate.read() + user.key.read() if tls and user.certificate else ""),
    }


def exec_of(program: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}", "command": f"bin/{program}-{version}", **more}}


def provider(name: str, **config: str) -> dict[str, Any]:
    return {"auth-provider": {"name": name, "config": {key.replace("_", "-"): value for key, value in config.items()}}}


LATER = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
OIDC = {"idp_issuer_url": "https://issuer.test", "client_id": "us"}
PAIR = {"client-certificate": "client.crt", "client-key": "client.key"}
PAIR_DATA = {"client-certificate-data": encoded(CERT), "client-key-data": encoded(KEY)}

ALIKE: dict[str, Any] = {
    "token": document({"token": "sesame"}),
    "token file": document({"tokenFile": "token"}),
    "user and password": document({"username": "user", "password": "pass:word"}),
    "token and user": document({"token": "sesame", "username": "user", "password": "word"}),
    "no credentials": document({}),
    "unknown user": document({}) | {"users": []},
    "no users": {key: value for key, value in document({}).items() if key != "users"},
    "certificate files": document(PAIR, {"certificate-authority": "ca.crt"}),
    "certificate data": document(PAIR_DATA, {"certificate-authority-data": encoded(CA)}),
    "data before files": document(
        PAIR_DATA | {"client-certificate": "nowhere", "client-key": "nowhere"},
        {"certificate-authority-data": encoded(CA), "certificate-authority": "nowhere"},
    ),
    "data in lines": document({"client-certificate-data": "\n".join(encoded(CERT)), "client-key-data": encoded(KEY) + "\n"}),
    "certificate and token": document(PAIR | {"token": "sesame"}),
    "unverified": document({}, {"insecure-skip-tls-verify": True}),
    "unverified with a CA": document({}, {"insecure-skip-tls-verify": True, "certificate-authority": "ca.crt"}),
    "verified": document({}, {"insecure-skip-tls-verify": False}),
    "server name": document({}, {"tls-server-name": "other.test"}),
    "plain HTTP": document({"token": "sesame"} | PAIR, {"server": "http://api.test:8080", "certificate-authority": "nowhere"}),
    "path": document({"token": "sesame"}, {"server": "https://api.test/k8s/clusters/x/"}),
    "IPv6": document({"token": "sesame"}, {"server": "https://[fd00::1]:6443"}),
    "exec": document(exec_of("token")),
    "exec v1beta1": document(exec_of("token", "v1beta1")),
    "exec v1alpha1": document(exec_of("token", "v1alpha1")),
    "exec with arguments": document(exec_of("token", args=["a", "b"], env=[{"name": "EXTRA", "value": "c"}], interactiveMode="Never")),
    "exec by an absolute path": document({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "{folder}/bin/token-v1"}}),
    "exec by PATH": document({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["bin/token-v1", "x"]}}),
    "exec with cluster": document(exec_of("token", provideClusterInfo=True), {"certificate-authority": "ca.crt"}),
    "exec that asks if it can": document(exec_of("token", interactiveMode="IfAvailable")),
    "exec with certificates": document(exec_of("pair")),
    "exec and a certificate": document(exec_of("token") | PAIR),
    "exec that fails and a certificate": document(exec_of("nowhere") | PAIR),
    "token before exec": document(exec_of("token") | {"token": "sesame"}),
    "exec before user": document(exec_of("token") | {"username": "user", "password": "word"}),
    "oidc": document(provider("oidc", id_token=token_of(exp=int(time.time()) + 3600), **OIDC)),
    "oidc without end": document(provider("oidc", id_token=token_of(sub="us"), **OIDC)),
    "oidc before token": document(provider("oidc", id_token=token_of(exp=int(time.time()) + 3600), **OIDC) | {"token": "sesame"}),
    "gcp": document(provider("gcp", access_token="sesame")),
    "gcp with an end": document(provider("gcp", access_token="sesame", expiry=LATER)),
    "gcp by a program": document(provider("gcp", access_token="old", expiry="2020-01-01T00:00:00Z", cmd_path="{folder}/bin/gcp", cmd_args="new x")),
    "gcp by a program in one line": document(provider("gcp", cmd_path="{folder}/bin/gcp new")),
    "azure beside a token": document(provider("azure", access_token="x") | {"token": "sesame"}),
    "two of one name": document({"token": "first"}) | {"users": [{"name": "u", "user": {"token": name}} for name in ("first", "second")]},
    "JSON": json.dumps(document({"token": "sesame"} | PAIR)),
    "anchors": f"current-context: a\nclusters: [{{name: c, cluster: &c {{server: '{SERVER}'}}}}, {{name: d, cluster: {{<<: *c, tls-server-name: d}}}}]\n"
    "contexts: [{name: a, context: {cluster: d}}]\n",
    "unknown fields": document({"token": "sesame", "as": "other", "extensions": []}, {"unknown": [1]}) | {"preferences": {}, "extensions": None},
}


@pytest.mark.parametrize("name", ALIKE)
def test_alike(name: str, tmp_path: Path) -> None:
    content = ALIKE[name]
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    path = write(tmp_path, text.replace("{folder}", str(tmp_path)))
    assert seen_by_us(path, "") == seen_by_package(path, "")


def test_alike_by_the_name_of_a_context(tmp_path: Path) -> None:
    path = write(tmp_path, document({"token": "sesame"}))
    assert seen_by_us(path, "main")["authorization"] == "Bearer sesame"
    assert seen_by_us(path, "nobody")["authorization"] == ""
    for context in ("main", "nobody"):
        assert seen_by_us(path, context) == seen_by_package(path, context)


#: Where client-go differs from the package, and we follow client-go: (user, Authorization).
AS_CLIENT_GO: dict[str, tuple[Any, str]] = {
    "a user without content": (None, ""),
    "the token file goes before the token": ({"token": "sesame", "tokenFile": "token"}, "Bearer from-a-file"),
    "the token, if the file is not readable": ({"token": "sesame", "tokenFile": "nowhere"}, "Bearer sesame"),
    "a user without password": ({"username": "user"}, "Basic " + encoded("user:")),
    "UTF-8": ({"username": "us\u20ac", "password": "w"}, "Basic " + encoded("us\u20ac:w")),
}


@pytest.mark.parametrize("name", AS_CLIENT_GO)
def test_as_client_go(name: str, tmp_path: Path) -> None:
    user, expected = AS_CLIENT_GO[name]
    assert seen_by_us(write(tmp_path, document(user)), "")["authorization"] == expected


# ---- files that will not do ----

BAD: dict[str, tuple[Any, str]] = {
    "empty": ("", r"^invalid configuration: no current-context in PATH$"),
    "a list": ("[]", r'^error loading config file "PATH": the file: a mapping is expected$'),
    "a word": ("x", r'^error loading config file "PATH": the file: a mapping is expected$'),
    "no YAML": ("a: [", r'^error loading config file "PATH": yaml: \d+:\d+: '),
    "a tab": ("a:\n\t- b", r'^error loading config file "PATH": yaml: 2:1: '),
    "no text": ("\x00\x01", r'^error loading config file "PATH": yaml: '),
    "two documents": ("a: b\n---\nc: d\n", r'^error loading config file "PATH": yaml: 2:1: '),
    "a tag": ("!!python/object/apply:os.getcwd []", r'^error loading config file "PATH": yaml: 1:1: '),
    "too deep": ("[" * 5000, r'^error loading config file "PATH": yaml: '),
    "unknown context": (document({}) | {"current-context": "x"}, r"^invalid configuration: context was not found for specified context: x in PATH$"),
    "no context": (document({}) | {"current-context": ""}, r"^invalid configuration: no current-context in PATH$"),
    "unknown cluster": (document({}) | {"clusters": []}, r'^invalid configuration: cluster "c" was not found for context "main" in PATH$'),
    "no cluster": (
        document({}) | {"contexts": [{"name": "main", "context": {}}]},
        r'^invalid configuration: cluster was not specified for context "main" in PATH$',
    ),
    "no server": (document({}, {"server": ""}), r'^invalid configuration: no server found for cluster "c" in PATH$'),
    "no URL": (document({}, {"server": "ftp://x"}), r"^host must be a URL or a host:port pair: 'ftp://x'$"),
    "no name": (document({}) | {"users": [{"user": {}}]}, r'^error loading config file "PATH": users\[0\].name: a string is expected$'),
    "a number": (document({"token": 12345}), r'^error loading config file "PATH": users\[0\].user.token: a string is expected$'),
    "no base64": (document({}, {"certificate-authority-data": "%"}), r"clusters\[0\].cluster.certificate-authority-data: base64 of PEM is expected$"),
    "no flag": (document({}, {"insecure-skip-tls-verify": "false"}), r"clusters\[0\].cluster.insecure-skip-tls-verify: true or false is expected$"),
    "a proxy of another kind": (
        document({}, {"proxy-url": "ftp://x"}),
        r"""^invalid configuration: invalid 'proxy-url' "ftp://x" for cluster "c": unsupported scheme "ftp", must be http or socks5$""",
    ),
    "a proxy by TLS": (document({}, {"proxy-url": "https://x"}), r'for cluster "c": scheme "https" is not supported here, must be http or socks5$'),
    "a proxy that is no URL": (document({}, {"proxy-url": "http://[::1"}), r'for cluster "c": could not parse: http://\[::1$'),
    "a proxy without host": (document({}, {"proxy-url": "socks5://"}), r'for cluster "c": could not parse: socks5://$'),
    "no CA": (
        document({}, {"certificate-authority": "x"}),
        r"^invalid configuration: unable to read certificate-authority FOLDER/x for c due to open FOLDER/x: no such file or directory$",
    ),
    "no certificate": (document({"client-certificate": "x", "client-key": "client.key"}), r"unable to read client-cert FOLDER/x for u due to open "),
    "no key": (document({"client-certificate": "client.crt", "client-key": "x"}), r"unable to read client-key FOLDER/x for u due to open "),
    "a token of two lines": (document({"token": "a\nb"}), r'^invalid configuration: token of user "u": the token is empty or has control characters$'),
    "no command": (document({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}), r"^invalid configuration: command must be specified for u to use"),
    "no apiVersion": (document({"exec": {"command": "x"}}), r"^invalid configuration: apiVersion must be specified for u to use exec authentication plugin"),
    "another apiVersion": (document({"exec": {"command": "x", "apiVersion": "v1"}}), r'^exec plugin: invalid apiVersion "v1" of user "u" in PATH$'),
    "another mode": (document(exec_of("token", interactiveMode="no")), r'^invalid configuration: invalid interactiveMode for u: "no" in PATH$'),
    "an argument that is no text": (document(exec_of("token", args=["a", 1])), r"users\[0\].user.exec.args\[1\]: a string is expected$"),
    "a variable without name": (document(exec_of("token", env=[{"value": "x"}])), r"^invalid configuration: env variable name must be specified for u"),
    "exec and a provider": (document(exec_of("token") | provider("oidc")), r"authProvider cannot be provided in combination with an exec plugin for u"),
    "gcp": (document(provider("gcp")), r"^The gcp auth plugin has been removed. "),
    "azure": (document(provider("azure")), r"^The azure auth plugin has been removed. "),
    "another provider": (document(provider("x")), r'^no Auth Provider found for name "x"$'),
    "oidc without issuer": (document(provider("oidc", client_id="us")), r"^Must provide idp-issuer-url$"),
    "oidc without client": (document(provider("oidc", idp_issuer_url="https://x")), r"^Must provide client-id$"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, tmp_path: Path) -> None:
    content, expected = BAD[name]
    path = write(tmp_path, content)
    with pytest.raises(ApiConfigError, match=expected.replace("PATH", path).replace("FOLDER", str(tmp_path))):
        Kubeconfig(path)


def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, document({}))
    with pytest.raises(ApiConfigError, match=f'^context "nowhere" does not exist in {path}$'):
        Kubeconfig(path, "nowhere")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ApiConfigError, match=f"^stat {tmp_path}/x: no such file or directory$"):
        Kubeconfig(f"{tmp_path}/x")
    with pytest.raises(ApiConfigError, match=f'^error loading config file "{tmp_path}": open {tmp_path}: is a directory$'):
        Kubeconfig(str(tmp_path))


WHOLE = document(
    exec_of("token", args=["a"], env=[{"name": "EXTRA", "value": "c"}], interactiveMode="Never", provideClusterInfo=True, installHint="x")
    | PAIR
    | {"token": "t", "tokenFile": "token", "username": "u", "password": "p", "auth-provider": None},
    {
        "certificate-authority": "ca.crt",
        "tls-server-name": "x",
        "insecure-skip-tls-verify": False,
        "disable-compression": False,
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": 1}}],
    },
)
WRONG = (0, 1.5, True, "x", "\u20ac\n", [], {}, None, [1], ["x"], [{}], {"a": 1}, {1: 2}, [[]], datetime.date(2026, 1, 1))


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The ways to everything in a document."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


@pytest.mark.parametrize("place", list(places(WHOLE)), ids=lambda place: ".".join(map(str, place)) or "all")
def test_wrong_types_are_errors(place: tuple[Any, ...], tmp_path: Path) -> None:
    """Whatever stands in a place, the file is read or an ApiConfigError says why not."""
    path = write(tmp_path, WHOLE)
    load(path)
    for wrong in WRONG:
        changed = {"root": copy.deepcopy(WHOLE)}
        at: Any = changed
        steps = ("root", *place)
        for step in steps[:-1]:
            at = at[step]
        at[steps[-1]] = wrong
        Path(path).write_text(yaml.safe_dump(changed["root"]))
        with contextlib.suppress(ApiConfigError):
            Kubeconfig(path)
