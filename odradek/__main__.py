"""`python -m odradek`: the command line."""

from odradek.cli.main import main

if __name__ == "__main__":
    main()
