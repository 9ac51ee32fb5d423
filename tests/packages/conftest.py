"""Packages of plugins, as their authors have them: their own tests run where they are installed, see tests/test_packaging.py."""

collect_ignore_glob = ["*/*"]
