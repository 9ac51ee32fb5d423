"""Identity providers of kubeconfigs: ID tokens as they end, what providers answer, and gcp's programs."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from fastdns.plugins.kubernetes.watch import kubeconfig, reflector
from fastdns.plugins.kubernetes.watch.auth_provider import REMOVED, Gcp, OpenId, expiry
from fastdns.plugins.kubernetes.watch.exec_plugin import Credential
from fastdns.plugins.kubernetes.watch.kubeconfig import Kubeconfig
from tests.plugins.kubernetes.conftest import pair, run
from tests.plugins.kubernetes.test_clientcmd import provider, token_of
from tests.plugins.kubernetes.test_kubeconfig import follow_another, write_config
from tests.shell import SHEBANG

OLD = token_of(exp=1)


class Provider:
    """An OpenID provider on 127.0.0.1 that answers as it is told."""

    def __init__(self, tls: tuple[str, str] | None = None) -> None:
        issuer = self
        #: Status and body of metadata and of token requests, the latter by a function of headers and form.
        self.metadata: tuple[int, Any] | None = None
        self.answer: Callable[[dict[str, str], dict[str, str]], tuple[int, Any]] = lambda headers, form: (200, {})
        self.forms: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                known = self.path == "/realm/.well-known/openid-configuration"
                self.reply(*(issuer.metadata or (200, {"token_endpoint": f"{issuer.url}/token?v=2"})) if known else (404, {}))

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), strict_parsing=True)
                issuer.forms.append({key: values[0] for key, values in form.items()})
                known = self.path == "/realm/token?v=2" and self.headers["Content-Type"] == "application/x-www-form-urlencoded"
                self.reply(*(issuer.answer(dict(self.headers), issuer.forms[-1]) if known else (404, {})))

            def reply(self, status: int, body: Any) -> None:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}/realm"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def issuer() -> Iterator[Provider]:
    server = Provider()
    yield server
    server.stop()


def config_of(server: Provider, **more: str) -> dict[str, str]:
    given = provider("oidc", idp_issuer_url=server.url, client_id="us", client_secret="s/3", refresh_token="first", **more)
    config: dict[str, str] = given["auth-provider"]["config"]
    return config


BASIC = "Basic " + base64.b64encode(b"us:s%2F3").decode()


def test_an_id_token_that_ended_is_renewed(issuer: Provider) -> None:
    end = int(time.time()) + 3600
    new = token_of(exp=end)

    def answer(headers: dict[str, str], form: dict[str, str]) -> tuple[int, Any]:
        return (200, {"id_token": new, "refresh_token": f"after {form['refresh_token']}"}) if headers.get("Authorization") == BASIC else (400, {})

    issuer.answer = answer
    source = OpenId(config_of(issuer, id_token=OLD))
    assert run(source.credential()) == Credential(f"Bearer {new}", expires=end)
    run(source.credential())
    assert issuer.forms == [{"grant_type": "refresh_token", "refresh_token": text} for text in ("first", "after first")]


def test_a_good_id_token_is_used_once_before_it_is_renewed(issuer: Provider) -> None:
    good, new = token_of(exp=time.time() + 3600), token_of(exp=time.time() + 7200)
    issuer.answer = lambda headers, form: (200, {"id_token": new})
    source = OpenId(config_of(issuer, id_token=good))
    assert run(source.credential()).authorization == f"Bearer {good}"
    assert run(source.credential()).authorization == f"Bearer {new}"


def test_a_provider_that_wants_the_secret_in_the_form(issuer: Provider) -> None:
    issuer.answer = lambda headers, form: (200, {"id_token": OLD}) if form.get("client_secret") == "s/3" else (401, {"error": "invalid_client"})
    run(OpenId(config_of(issuer)).credential())
    assert issuer.forms[1] == {"grant_type": "refresh_token", "refresh_token": "first", "client_id": "us", "client_secret": "s/3"}


FAILURES: list[tuple[tuple[int, Any] | None, tuple[int, Any], str]] = [
    ((503, b"busy"), (200, {}), r"^oidc: failed to query metadata endpoint 503: b'busy'$"),
    ((200, b"<html>"), (200, {}), r"^failed to decode provider discovery object: "),
    ((200, []), (200, {}), r"^failed to decode provider discovery object: no object$"),
    ((200, {}), (200, {}), r"^oidc: discovery object doesn't contain a token_endpoint$"),
    ((200, {"token_endpoint": "ftp://x"}), (200, {}), r"^oidc: host must be a URL or a host:port pair: 'ftp://x'$"),
    ((200, {"token_endpoint": "http://127.0.0.1:1/"}), (200, {}), r"^dial tcp 127.0.0.1:1: connect: connection refused$"),
    (None, (400, {"error": "invalid_grant"}), r"""^failed to refresh token: 400: b'{"error": "invalid_grant"}'$"""),
    (None, (200, b"x"), r"^failed to decode token response: "),
    (None, (200, {}), r"^token response did not contain an id_token$"),
    (None, (200, {"id_token": 1}), r"^token response did not contain an id_token$"),
    (None, (200, {"id_token": "a.b"}), r"^ID Token is not a valid JWT$"),
]


@pytest.mark.parametrize(("metadata", "answer", "expected"), FAILURES)
def test_providers_that_fail(issuer: Provider, metadata: tuple[int, Any] | None, answer: tuple[int, Any], expected: str) -> None:
    issuer.metadata = metadata
    issuer.answer = lambda headers, form: answer
    with pytest.raises(OSError, match=expected):
        run(OpenId(config_of(issuer)).credential())


def test_no_refresh_token(issuer: Provider) -> None:
    config = config_of(issuer, id_token=OLD) | {"refresh-token": ""}
    with pytest.raises(OSError, match=r"^No valid id-token, and cannot refresh without refresh-token$"):
        run(OpenId(config).credential())


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.%.c", "a.YQ.c", "a.e30.c.d", "a.W10.c", token_of(exp="soon"), token_of(exp=None)])
def test_what_is_no_id_token(token: str) -> None:
    with pytest.raises(OSError, match=r"^ID Token is not a valid JWT"):
        expiry(token)


def test_certificates_of_a_provider(certificates: Path) -> None:
    server = Provider(pair(certificates, "server"))
    server.answer = lambda headers, form: (200, {"id_token": OLD})
    ca = certificates / "ca.crt"
    try:
        for more in ({"idp_certificate_authority": str(ca)}, {"idp_certificate_authority_data": base64.b64encode(ca.read_bytes()).decode()}):
            assert run(OpenId(config_of(server, **more)).credential()).authorization == f"Bearer {OLD}"
        with pytest.raises(OSError, match=r"^tls: .*certificate"):
            run(OpenId(config_of(server)).credential())
        with pytest.raises(OSError, match=r"^oidc: idp-certificate-authority: .*No such file"):
            run(OpenId(config_of(server, idp_certificate_authority="/nowhere")).credential())
    finally:
        server.stop()


def test_a_server_is_followed_with_tokens_of_a_provider(issuer: Provider, fakekube: Any, follow: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(kubeconfig, "PAUSE", 0.1)
    tokens = [token_of(exp=int(time.time()) + 3600, jti=jti) for jti in ("first", "second")]
    issuer.answer = lambda headers, form: (200, {"id_token": server.token})
    server = fakekube(["svc default/a 10.0.0.1"], token=tokens[0])
    user = {"auth-provider": {"name": "oidc", "config": config_of(issuer, id_token=OLD)}}
    recorder, _ = follow(Kubeconfig(write_config(tmp_path, server.url, user)))
    assert len(issuer.forms) == 1
    follow_another(server, recorder, tokens[1], "b")
    assert len(issuer.forms) >= 2


# ---- gcp ----


def gcp(folder: Path, output: str, **config: str) -> Gcp:
    (folder / "gcloud").write_text(f"{SHEBANG}\necho $* >> {folder}/asked\necho '{output}'\n")
    (folder / "gcloud").chmod(0o755)
    return Gcp({key.replace("_", "-"): value for key, value in config.items()}, str(folder))


NEW = '{"credential": {"access_token": "new", "token_expiry": "2100-01-01T00:00:00Z"}}'


def test_a_token_of_gcp_and_the_next_ones(tmp_path: Path) -> None:
    source = gcp(tmp_path, NEW, access_token="old", expiry="2100-01-01T00:00:00Z", cmd_path="./gcloud", cmd_args="config  helper")
    assert [run(source.credential()).authorization for _ in range(2)] == ["Bearer old", "Bearer new"]
    assert (tmp_path / "asked").read_text() == "config helper\n"


GCP_FAILURES = [
    ({"access_token": "old", "expiry": "2020-01-01T00:00:00Z"}, "", REMOVED["gcp"]),
    ({"access_token": "old", "expiry": "soon"}, "", "gcp: expiry: "),
    ({"cmd_path": "./gcloud"}, "x", "failed to decode output of cmd-path: "),
    ({"cmd_path": "./gcloud"}, "{}", "gcp: output of cmd-path: KeyError"),
    ({"cmd_path": "./gcloud"}, '{"credential": 1}', "gcp: output of cmd-path: TypeError"),
    ({"cmd_path": "./gcloud"}, NEW.replace("2100", "later"), "gcp: output of cmd-path: ValueError"),
    ({"cmd_path": "./nowhere"}, "", "exec: executable ./nowhere not found"),
]


@pytest.mark.parametrize(("config", "output", "expected"), GCP_FAILURES)
def test_gcp_fails(config: dict[str, str], output: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        run(gcp(tmp_path, output, **config).credential())
    assert str(caught.value).startswith(expected)
