"""Pure decisions and values: no client, no clock, no randomness but where a docstring says so."""
