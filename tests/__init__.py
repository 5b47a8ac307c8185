"""Tests, by the rooms of the package; what several rooms use stands here beside them."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
DATA = ROOT.parent / "shared" / "data"
"""Real corpora, which are no part of the project: tests skip where they are absent."""
