"""What the latest CoreDNS has: `options.json`, made by `tools/coredns_options.py`."""
