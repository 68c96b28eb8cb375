"""The embedded server: its programs, its cluster, and getting one onto this machine."""
