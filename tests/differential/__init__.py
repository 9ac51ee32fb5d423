"""Random small zones and queries, and what other servers answer to them: see __main__.py for a run of any size."""
