"""A Kubernetes API server for tests, with a real watch cache and a real etcd; ``python -m tests.apiserver`` starts one. README.md describes it."""
