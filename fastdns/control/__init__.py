"""The control side: work that is done from time to time."""
