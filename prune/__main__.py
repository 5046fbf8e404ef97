"""``python -m prune``: the command, where its script is not on the path."""

from prune.cli import main

if __name__ == "__main__":
    main()
