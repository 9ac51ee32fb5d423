"""Python plugins: their executor, its requests, their verdicts."""
