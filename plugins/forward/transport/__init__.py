"""How queries reach an upstream: over UDP, TCP, TLS, HTTP and QUIC."""
