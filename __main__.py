"""`python -m fusewire`: the `fusewire` command."""

import sys

from .commands.main import main

sys.exit(main())
