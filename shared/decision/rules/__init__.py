"""One rule per file. A new rule is a new file and one line in `shared/decision/chain.py`."""
