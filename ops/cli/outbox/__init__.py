"""`ulak outbox`: the tables that services enqueue in, their own and Ulak's: installed, looked into, set going again."""
