"""Which setting to choose at which size, and which environment is worth its price."""
