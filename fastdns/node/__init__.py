"""A DNS cache on each node, a replacement of Kubernetes's node-cache: the same flags, files, network set-up and metrics around a fastdns server.

`cli` is the command ``fastdns-node``, `cache` the supervisor, `template` the Corefile, `network`, `link` and `rules` the network set-up, `child` the server.
The server is a child process, whose sockets `store` keeps while it is started again. `handover` passes them from one pod of a node to the next (`peer`), and
`holder` keeps them for a pod that was killed. When nobody can serve, interface and rules are removed, so that queries reach the cluster's DNS Service: they
belong to all pods that serve (`ownership`).
"""
