"""The records of a cluster's zones: whole for AXFR, and what changes of them for IXFR."""
