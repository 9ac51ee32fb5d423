"""The plugins, one folder each; installed as ``fastdns.plugins``."""
