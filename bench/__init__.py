"""``fastdns-bench``: load generator, scenarios and side-by-side comparison; installed as ``fastdns.bench``."""
