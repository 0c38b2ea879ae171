"""What is cached and how it is read: the bytes of K and V, and attention through a block table."""
