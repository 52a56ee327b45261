"""``python -m unspool.cli``."""

from unspool.cli import main

main()
