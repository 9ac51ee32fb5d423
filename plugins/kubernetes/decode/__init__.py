"""Kubernetes objects from protobuf and JSON."""
