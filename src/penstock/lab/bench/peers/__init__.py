"""What others would use instead, in an environment of their own: programs that the bench starts."""
