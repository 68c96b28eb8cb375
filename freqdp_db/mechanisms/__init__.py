"""The two randomized mechanisms and the noise they draw. Pure: randomness is an argument."""
