"""A cache on every node, in place of Kubernetes's node-cache: the same flags, files, network set-up and metrics around a fastdns server.

`cli` is the command ``fastdns-node``, `cache` the life of the process, `template` the Corefile, `link` and `rules` the network.
The server is a child process: when it dies, the address of the cluster's DNS service is given back to the cluster at once.
"""
