"""``fastdns-bench nodes``: ways of answering a cluster's names on a node, side by side on a real API server."""
