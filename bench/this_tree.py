"""Imported before `odradek` by the programs of this folder: they play the tree that they lie in, and so do the
processes that they start, wherever `odradek` is installed from. Another one is what PYTHONPATH names."""

import os
import sys
from pathlib import Path

TREE = str(Path(__file__).resolve().parent.parent)
NAMED = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]

sys.path.insert(1 + len(NAMED), TREE)
os.environ["PYTHONPATH"] = os.pathsep.join([*NAMED, TREE])
