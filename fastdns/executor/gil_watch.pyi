"""Finds the Python plugin that holds the interpreter lock: see executor/gil_watch.pxd."""

#: ns that a plugin may have the GIL before the log names it.
HELD: int
