"""The command line: made from the verbs of `api.py`, and what they print."""
