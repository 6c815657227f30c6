"""`replay`: dead letters, looked at, sent on their way again, and ended."""
