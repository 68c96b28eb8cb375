"""The contract of methods, the loop over their steps, and the methods themselves."""
