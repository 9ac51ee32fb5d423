"""The real API server, as for kubernetes."""

from tests.plugins.kubernetes.conftest import apiserver

__all__ = ["apiserver"]
