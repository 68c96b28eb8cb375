"""What reproduces the paper: experiments side by side, its summary table, its published values."""
