"""E-mail requests as entries of Ulak's ledger (model B): what is known of them, what is decided, and their rows.

Used by whoever takes requests in: the relay from a service's table, ingest from `POST /emails`.
"""
