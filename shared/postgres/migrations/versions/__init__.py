"""One module per revision, in order; each runs the SQL file of its name. Released ones are never edited."""
