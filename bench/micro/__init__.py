"""Micro-benchmarks with pytest-benchmark, over native loops, and ``fastdns-bench micro``, which compares them with what is written down."""
