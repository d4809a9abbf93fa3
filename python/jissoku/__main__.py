"""`python -m jissoku`: the same as the `jissoku` command."""

from jissoku.cli import main

if __name__ == "__main__":
    main()
