"""Templates: what an author may write, rendering, and what a channel takes."""
