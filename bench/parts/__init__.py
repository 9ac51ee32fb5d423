"""What scenarios need beside the server under test: a cluster's objects, and an API server that serves them."""
