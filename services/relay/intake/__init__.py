"""Model B: rows of `email_messages` go into Ulak's ledger, and their end goes back to them."""
