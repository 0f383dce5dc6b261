"""`python -m perflog` is the command `perflog`."""

from perflog.cli.main import main

if __name__ == "__main__":  # a process started for one log imports this module under another name
    main(prog_name="perflog")
