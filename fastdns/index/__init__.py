"""What is looked up: records, zones, networks."""
