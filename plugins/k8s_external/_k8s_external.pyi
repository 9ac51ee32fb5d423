"""The native handler of k8s_external."""

from fastdns.plugins.k8s_external._external import ExternalZones
from fastdns.plugins.transfer._transfer import Transfer

class ExternalHandler(ExternalZones):
    """Answers for external zones."""

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None:
        """All records of a zone, for plugin transfer; None when it is none of this handler's zones."""
