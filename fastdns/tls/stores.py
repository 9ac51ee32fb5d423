"""Where the certificates of public CAs are on this machine. Looked up at run time: a library that comes with a wheel knows another machine's place."""

from __future__ import annotations

import os

__all__ = ["system_store"]

#: Files with all certificates: Debian and Alpine, Fedora, openSUSE, older and newer RHEL, others.
FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
#: Folders of certificates, named by hash.
FOLDERS = ("/etc/ssl/certs", "/etc/pki/tls/certs")


def system_store() -> tuple[str, str]:
    """A file and a folder, "" for none. What SSL_CERT_FILE and SSL_CERT_DIR name comes first, as with OpenSSL and Go."""
    file, folder = os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")
    if file or folder:
        return file, folder
    file = next((path for path in FILES if os.path.isfile(path)), "")
    return file, "" if file else next((path for path in FOLDERS if os.path.isdir(path)), "")
