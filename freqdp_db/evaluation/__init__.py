"""Audits, benchmarks and measures. Reads originals; the release path never imports it."""
