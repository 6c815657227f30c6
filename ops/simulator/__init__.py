"""The provider simulator: answers as the real providers do, checks what they check, and fails on demand."""
