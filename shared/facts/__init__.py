"""What a decision is made of, loaded for a whole batch in a handful of queries.

Used by whoever decides: the router, and ingest where it tells what would be decided.
"""
