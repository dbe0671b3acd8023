"""The command line as a module: `python -m gofstream`."""

from gofstream.cli import main

if __name__ == "__main__":
    main()
