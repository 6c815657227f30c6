"""The embedded stack: real servers from wheels, the provider simulator and every service, supervised on one machine."""
