"""The command `fastdns top`."""
