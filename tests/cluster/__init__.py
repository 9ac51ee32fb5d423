"""A Kubernetes cluster on one machine, with this project's image as its DNS server, and Kubernetes' own tests: see docs/cluster-tests.md."""
