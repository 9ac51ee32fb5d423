"""HTTP on the workers: DNS over HTTPS (RFC 8484) and over gRPC, on HTTP/1.1 and HTTP/2."""
