"""The verbs of freqdp as functions. `import freqdp_db` offers them; the command line calls them.

Each takes a connection first: a `Database` of `connect`, a URL or libpq string, or None for what the
command line would use. Each returns frozen documents, and refuses by raising a `FreqdpError`.
"""
