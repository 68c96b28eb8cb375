"""Released tables: staged, published, read and withdrawn."""
