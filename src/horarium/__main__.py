"""`python -m horarium` is the `horarium` command."""

from __future__ import annotations

from horarium.cli import main

if __name__ == "__main__":
    main.main()
