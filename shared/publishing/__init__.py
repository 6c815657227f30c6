"""Templates on their way to use: checked, prepared, stored, and written down who did it."""
