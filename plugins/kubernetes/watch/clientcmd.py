"""Kubeconfig files: the cluster and the user of one context, read and checked as client-go's clientcmd does.

Paths in a file are relative to its folder. Where a file has both a path and data, the data is used.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from typing import Any

from fastdns.plugins.kubernetes.watch.address import Address
from fastdns.plugins.kubernetes.watch.origin import ApiConfigError
from fastdns.plugins.kubernetes.watch.proxy import Proxy

EXEC_GROUP = "client.authentication.k8s.io"
#: Versions of ExecCredential.
EXEC_VERSIONS = tuple(f"{EXEC_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
#: Name of the extension of a cluster whose content exec plugins get.
EXEC_EXTENSION = f"{EXEC_GROUP}/exec"
INTERACTIVE_MODES = ("", "Never", "IfAvailable", "Always")


@dataclass(frozen=True)
class Pem:
    """Certificates or a key, in a file or in the kubeconfig itself."""

    path: str = ""
    data: str = ""

    def __bool__(self) -> bool:
        return bool(self.path or self.data)

    def read(self) -> str:
        """The text. OSError, UnicodeDecodeError."""
        if self.data or not self.path:
            return self.data
        with open(self.path, encoding="ascii") as file:
            return file.read()


@dataclass(frozen=True)
class Cluster:
    """An API server."""

    name: str
    server: str
    ca: Pem = Pem()
    verify: bool = True
    tls_server_name: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    #: The extension for exec plugins, None without one.
    exec_config: Any = None


@dataclass(frozen=True)
class ExecConfig:
    """A program that prints credentials."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    #: Where it runs: the folder of the kubeconfig.
    folder: str = "/"


@dataclass(frozen=True)
class User:
    """Credentials, or how to get them."""

    name: str = ""
    certificate: Pem = Pem()
    key: Pem = Pem()
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    #: Of auth-provider, "" without one.
    auth_provider: str = ""
    auth_provider_config: dict[str, str] = field(default_factory=dict)

    @property
    def other_credentials(self) -> bool:
        """Whether there is more than the auth-provider."""
        return bool(self.token or self.token_file or self.exec or self.username or self.password or self.certificate)


@dataclass(frozen=True)
class Config:
    """What a context names."""

    cluster: Cluster
    user: User


class Fields:
    """A mapping of the file, by the types that its fields must have. Absent and null are the same, as in Go."""

    def __init__(self, file: str, name: str, value: object) -> None:
        """ApiConfigError for what is no mapping."""
        self.file, self.name = file, name
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.error("", "a mapping")
        self.values: dict[Any, Any] = value

    def error(self, key: str, expected: str) -> ApiConfigError:
        where = ".".join(part for part in (self.name, key) if part) or "the file"
        return ApiConfigError(f'error loading config file "{self.file}": {where}: {expected} is expected')

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(key, "a string")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(key, "true or false")
        return value

    def items(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(key, "a list")
        return value

    def mapping(self, key: str) -> Fields:
        return Fields(self.file, f"{self.name}.{key}" if self.name else key, self.values.get(key))

    def mappings(self, key: str) -> list[Fields]:
        prefix = f"{self.name}.{key}" if self.name else key
        return [Fields(self.file, f"{prefix}[{place}]", value) for place, value in enumerate(self.items(key))]

    def texts(self, key: str) -> tuple[str, ...]:
        values = self.items(key)
        for place, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{key}[{place}]", "a string")
        return tuple(values)

    def path(self, key: str) -> str:
        """A path, absolute; "" without one."""
        value = self.text(key)
        return os.path.normpath(os.path.join(os.path.dirname(self.file), value)) if value else ""

    def pem(self, key: str) -> Pem:
        """The field, or the one with -data behind its name."""
        data = self.text(f"{key}-data")
        if not data:
            return Pem(path=self.path(key))
        try:
            return Pem(data=base64.b64decode("".join(data.split()), validate=True).decode("ascii"))
        except (binascii.Error, UnicodeDecodeError, ValueError):
            raise self.error(f"{key}-data", "base64 of PEM") from None


def load(path: str, context: str = "") -> Config:
    """A context of a file, by default its current one. ApiConfigError."""
    fields = Fields(path, "", _read(path))
    named = _named(fields, "contexts", "context")
    if context:
        if context not in named:
            raise ApiConfigError(f'context "{context}" does not exist in {path}')
    else:
        context = fields.text("current-context")
        if not context:
            raise ApiConfigError(f"invalid configuration: no current-context in {path}")
        if context not in named:
            raise ApiConfigError(f"invalid configuration: context was not found for specified context: {context} in {path}")
    chosen = named[context]
    clusters, users = _named(fields, "clusters", "cluster"), _named(fields, "users", "user")
    cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
    if not cluster_name:
        raise ApiConfigError(f'invalid configuration: cluster was not specified for context "{context}" in {path}')
    if cluster_name not in clusters:
        raise ApiConfigError(f'invalid configuration: cluster "{cluster_name}" was not found for context "{context}" in {path}')
    config = Config(_cluster(cluster_name, clusters[cluster_name]), _user(user_name, users[user_name]) if user_name in users else User(user_name))
    if Address.parse(config.cluster.server).tls:
        _check_files(config)
    return config


def _read(path: str) -> object:
    import yaml

    from fastdns.plugins.kubernetes.watch.yaml_loader import position, problem, read_document

    try:
        with open(path, "rb") as file:
            return read_document(file)
    except OSError as error:
        text = f"open {path}: {(error.strerror or str(error)).lower()}"
    except yaml.YAMLError as error:
        where = position(error)
        text = f"yaml: {where}: {problem(error)}" if where else f"yaml: {problem(error)}"
    except (RecursionError, ValueError) as error:
        text = f"yaml: {error}"
    raise ApiConfigError(f'error loading config file "{path}": {text}')


def _named(fields: Fields, key: str, content: str) -> dict[str, Fields]:
    """The entries of a list by their names; of two with one name the first is used."""
    found: dict[str, Fields] = {}
    for entry in fields.mappings(key):
        name = entry.text("name")
        if not name:
            raise entry.error("name", "a string")
        found.setdefault(name, entry.mapping(content))
    return found


def _cluster(name: str, fields: Fields) -> Cluster:
    server = fields.text("server")
    if not server:
        raise ApiConfigError(f'invalid configuration: no server found for cluster "{name}" in {fields.file}')
    proxy_url = fields.text("proxy-url")
    if proxy_url:
        try:
            Proxy.parse(proxy_url)
        except ValueError as error:
            raise ApiConfigError(f'invalid configuration: invalid \'proxy-url\' "{proxy_url}" for cluster "{name}": {error}') from None
    extensions = {entry.text("name"): entry.values.get("extension") for entry in fields.mappings("extensions")}
    return Cluster(
        name,
        server,
        ca=fields.pem("certificate-authority"),
        verify=not fields.flag("insecure-skip-tls-verify"),
        tls_server_name=fields.text("tls-server-name"),
        proxy_url=proxy_url,
        disable_compression=fields.flag("disable-compression"),
        exec_config=extensions.get(EXEC_EXTENSION),
    )


def _user(name: str, fields: Fields) -> User:
    provider = fields.mapping("auth-provider")
    user = User(
        name,
        certificate=fields.pem("client-certificate"),
        key=fields.pem("client-key"),
        token=fields.text("token"),
        token_file=fields.path("tokenFile"),
        username=fields.text("username"),
        password=fields.text("password"),
        exec=_exec(name, fields.mapping("exec")) if fields.values.get("exec") is not None else None,
        auth_provider=provider.text("name"),
        auth_provider_config=_provider_config(provider.mapping("config")),
    )
    if user.auth_provider and user.exec:
        raise ApiConfigError(f"invalid configuration: authProvider cannot be provided in combination with an exec plugin for {name} in {fields.file}")
    return user


def _provider_config(fields: Fields) -> dict[str, str]:
    found = {str(key): fields.text(key) for key in fields.values}
    if found.get("idp-certificate-authority"):
        found["idp-certificate-authority"] = fields.path("idp-certificate-authority")
    return found


def _exec(user: str, fields: Fields) -> ExecConfig:
    for key in ("command", "apiVersion"):
        if not fields.text(key):
            raise ApiConfigError(f"invalid configuration: {key} must be specified for {user} to use exec authentication plugin in {fields.file}")
    version, mode = fields.text("apiVersion"), fields.text("interactiveMode")
    if version not in EXEC_VERSIONS:
        raise ApiConfigError(f'exec plugin: invalid apiVersion "{version}" of user "{user}" in {fields.file}')
    if mode not in INTERACTIVE_MODES:
        raise ApiConfigError(f'invalid configuration: invalid interactiveMode for {user}: "{mode}" in {fields.file}')
    env = tuple((entry.text("name"), entry.text("value")) for entry in fields.mappings("env"))
    if not all(variable for variable, _ in env):
        raise ApiConfigError(f"invalid configuration: env variable name must be specified for {user} to use exec authentication plugin in {fields.file}")
    command = fields.text("command")
    return ExecConfig(
        version,
        fields.path("command") if os.sep in command else command,
        fields.texts("args"),
        env,
        install_hint=fields.text("installHint"),
        provide_cluster_info=fields.flag("provideClusterInfo"),
        folder=os.path.dirname(fields.file),
    )


def _check_files(config: Config) -> None:
    """Files that TLS needs are there."""
    cluster, user = config.cluster, config.user
    for field_name, pem, owner in (
        ("certificate-authority", cluster.ca, cluster.name),
        ("client-cert", user.certificate, user.name),
        ("client-key", user.key, user.name),
    ):
        if not pem.path:
            continue
        try:
            with open(pem.path, "rb"):
                pass
        except OSError as error:
            text = f"open {pem.path}: {(error.strerror or str(error)).lower()}"
            raise ApiConfigError(f"invalid configuration: unable to read {field_name} {pem.path} for {owner} due to {text}") from None
