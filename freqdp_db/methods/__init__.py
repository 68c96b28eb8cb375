"""The methods: what each runs, in which order, and what it guarantees."""
