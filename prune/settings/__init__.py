"""What the user asks for: flags, environment, configuration file → validated settings."""
