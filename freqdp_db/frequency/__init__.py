"""Point and trajectory frequencies, weights and signatures, as arrays. Pure."""
