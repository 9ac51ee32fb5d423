"""Simulated secondaries of one zone: what they ask of its server, and how soon they have what changes."""
