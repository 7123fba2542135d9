"""`python -m brimful`: the command line, where the script is not on the path."""

from brimful.cli import main

if __name__ == "__main__":
    main()
