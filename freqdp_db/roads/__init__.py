"""Road networks: the graph, routes, and samples matched to roads."""
