"""What crosses a process boundary: message schemas, codec, topics and lanes. Imports nothing of Ulak."""
