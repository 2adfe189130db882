"""A trained network as one HTML file that runs it, and as a program for anything else."""

from lcpinn.explorer.page import explore
from lcpinn.explorer.program import Program, trace

__all__ = ["Program", "explore", "trace"]
