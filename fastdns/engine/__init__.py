"""The workers: loop, chains, timers, offload queue."""
