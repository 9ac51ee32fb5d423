"""From a name to records of the store."""
