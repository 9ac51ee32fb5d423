"""The objects of one cluster, as workers read them."""
