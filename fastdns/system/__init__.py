"""Memory, threads, sockets and the kernel: what everything else stands on."""
