"""`freqdp bench`: how fast the search and the whole job are."""
