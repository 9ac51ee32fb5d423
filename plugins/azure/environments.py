"""Azure's clouds, by the names that Go's autorest library gives them."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from fastdns.corefile.errors import quoted, system_error

__all__ = ["PUBLIC", "Environment", "environment"]


class Environment(NamedTuple):
    """URLs without a final slash."""

    #: Of the API, Azure Resource Manager.
    manager: str
    #: Of what gives tokens, Microsoft Entra ID.
    authority: str
    #: What a token is for.
    audience: str
    #: It is known to the authority of the public cloud, which confirms authorities.
    known: bool = True


def _known(manager: str, authority: str) -> Environment:
    return Environment(f"https://{manager}", f"https://{authority}", f"https://{manager}")


PUBLIC = _known("management.azure.com", "login.microsoftonline.com")
GOVERNMENT = _known("management.usgovcloudapi.net", "login.microsoftonline.us")

ENVIRONMENTS = {
    "AZURECHINACLOUD": _known("management.chinacloudapi.cn", "login.chinacloudapi.cn"),
    "AZUREGERMANCLOUD": _known("management.microsoftazure.de", "login.microsoftonline.de"),
    "AZURECLOUD": PUBLIC,
    "AZUREPUBLICCLOUD": PUBLIC,
    "AZUREUSGOVERNMENT": GOVERNMENT,
    "AZUREUSGOVERNMENTCLOUD": GOVERNMENT,
}

#: The environment variable with the file that describes an Azure Stack.
FILE = "AZURE_ENVIRONMENT_FILEPATH"


def environment(name: str) -> Environment:
    """The cloud of a name in any case. Raises ValueError with CoreDNS's text."""
    name = name.upper()
    if name == "AZURESTACKCLOUD":
        return _of_file(os.environ.get(FILE, ""))
    if name not in ENVIRONMENTS:
        raise ValueError(f"autorest/azure: There is no cloud environment matching the name {quoted(name)}")
    return ENVIRONMENTS[name]


def _of_file(path: str) -> Environment:
    try:
        with open(path, "rb") as file:
            read = json.load(file)
    except OSError as error:
        raise ValueError(system_error(error, path=path)) from error
    if not isinstance(read, dict):
        raise ValueError(f"{path} is not an object of JSON")
    found = {field: read.get(field, "") for field in ("resourceManagerEndpoint", "activeDirectoryEndpoint", "tokenAudience")}
    if lacking := [field for field, value in found.items() if not isinstance(value, str) or (not value and field != "tokenAudience")]:
        raise ValueError(f"{path} has no {' and no '.join(lacking)}")
    manager, authority, audience = (value.rstrip("/") for value in found.values())
    return Environment(manager, authority, audience or manager, known=False)
