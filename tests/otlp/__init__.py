"""OpenTelemetry's Collector, built from its Go modules and run for the length of a test."""
