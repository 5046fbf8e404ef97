"""Hooks of trainers, on trainings that really run. Each stack's tests are skipped where it is not installed."""
