"""Compiles the handler against the headers of the fastdns that is installed."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import fastdns

handler = Extension("fastdns_clientip._clientip", ["fastdns_clientip/_clientip.pyx"], include_dirs=[fastdns.get_include()])
setup(ext_modules=cythonize([handler], language_level=3))
