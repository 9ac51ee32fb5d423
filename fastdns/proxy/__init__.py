"""The PROXY protocol: its headers, the senders that they are taken from, and sessions of UDP."""
