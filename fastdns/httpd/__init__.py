"""The HTTP server of health, ready and metrics."""
