"""A DNS cache on each node, a replacement of Kubernetes's node-cache: the same flags, files, network set-up and metrics around a fastdns server.

`cli` is the command ``fastdns-node``, `cache` the supervisor, `template` the Corefile, `link` and `rules` the network set-up.
The server is a child process, whose sockets `store` keeps while it is started again. When it cannot serve, interface and rules are removed at once, so that
queries reach the cluster's DNS Service.
"""
