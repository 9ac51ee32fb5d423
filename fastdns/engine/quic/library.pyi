"""BoringSSL's contexts and quiche's functions, for the other modules of the package; the native side is in ``engine/quic/quiche.pxd``."""
