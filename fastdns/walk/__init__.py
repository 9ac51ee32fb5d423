"""What knows a query besides the mux: matching, prefetching, finishing, metadata."""
