"""The table of quiche's functions. The contract is in engine/quic/quiche.pxd."""
