"""List and watch: the API server's objects, as they change."""
