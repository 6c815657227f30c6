"""A package, so that its stack ends with its last test instead of living beside all others until the session ends."""
