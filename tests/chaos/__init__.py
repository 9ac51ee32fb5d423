"""Faults of every kind while a server is asked, by a seed that repeats them: ``python -m tests.chaos MINUTES [SEED]`` (``make chaos MINUTES=120 SEED=7``).

The server, its load and the questions whose answers are checked are those of the soak (tests/soak.py).
"""
