"""What a DNS message is made of."""
