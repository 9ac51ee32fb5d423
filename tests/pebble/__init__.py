"""Pebble, the ACME server that Let's Encrypt tests clients with, built from its Go module and run for the length of a test."""
