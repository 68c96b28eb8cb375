"""Relations of the user's: looked at, read, and made by the loaders."""
