"""The numbers and names of DNS."""
