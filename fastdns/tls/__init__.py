"""TLS by libssl: contexts of servers and clients, tickets, renewal of certificates, and the records of a connection, without the GIL."""
