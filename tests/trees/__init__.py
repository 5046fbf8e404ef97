"""Trees of checkpoints for tests: built ones and small real ones."""
