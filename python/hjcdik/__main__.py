"""``python -m hjcdik``: the same as the ``hjcdik`` command."""

import sys

from hjcdik.cli import main

if __name__ == "__main__":
    sys.exit(main())
