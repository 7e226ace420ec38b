import sys

from puridiver.cli import main

sys.exit(main())
