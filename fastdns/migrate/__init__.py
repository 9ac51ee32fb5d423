"""``fastdns migrate``: what becomes of a cluster's CoreDNS when its image is changed to this server's, and the commands for it. Reads, and never writes."""
