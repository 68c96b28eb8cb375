"""`freqdp experiment`: methods side by side."""
