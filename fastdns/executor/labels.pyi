"""Metadata for Python plugins."""

from fastdns.executor.request import PluginQuery

def read_label(query: PluginQuery, text: str) -> str | None:
    """The value of a label for a query, computed by the query's worker; None where it is unset.

    Raises RuntimeError for a query that is answered or abandoned, TimeoutError when the workers have ended.
    """

def client_address(query: PluginQuery) -> bytes:
    """The client's address, 4 or 16 octets. Raises RuntimeError for a query that is answered."""
