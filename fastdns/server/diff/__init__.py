"""The command `fastdns diff`: what two Corefiles answer otherwise."""
