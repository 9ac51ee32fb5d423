"""Numbers, mnemonics and layouts that the DNS standards define. Nothing here needs another part of fastdns."""
