"""A checker of lock-free code: it runs the Cython source of small kernels in every execution that the memory model of C11 allows.

``rc11`` enumerates the executions of a program. ``source`` makes programs of functions of the tree, with the memory orders that stand there.
"""
