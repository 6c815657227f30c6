"""Streaming imports: millions of lines over one request, resumable, without getting in the way of anything else."""
