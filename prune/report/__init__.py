"""What a plan and an outcome look like outside: JSON for programs, tables for people."""
