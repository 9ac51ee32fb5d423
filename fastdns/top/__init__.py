"""The command `fastdns top`: what servers do now, in a terminal or as JSON."""
