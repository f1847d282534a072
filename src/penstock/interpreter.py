"""How Penstock starts this Python for its own processes.

`python -m` looks for modules in the working folder first: whoever may write to that folder could plant a `pandas.py`
there, and have it run as somebody else. A pipeline's own modules come from the folder of its file, and are put on the
path by name.
"""

import sys

SAFE_PYTHON = (sys.executable, "-P")
"""The beginning of a command; the working folder is not on its path."""
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""The same as a variable, for a Python that somebody else starts for us, such as Spark its workers."""
