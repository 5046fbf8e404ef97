"""Retention for training checkpoints: decide which live and which die, on a primary and its mirrors, safely."""

__version__ = "0.1.0"
