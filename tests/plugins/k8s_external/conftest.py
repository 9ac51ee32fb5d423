"""The real API server, as for kubernetes."""

from tests.plugins.kubernetes.conftest import apiserver, apiserver_program

__all__ = ["apiserver", "apiserver_program"]
