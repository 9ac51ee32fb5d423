"""Being told of all queries that begin or end to wait: for a plugin that measures where their time goes."""
from fastdns.walk.observer cimport observe_waits
