"""A trained network as one HTML file that runs it, and as a program for anything else."""

from lcpinn.explorer.page import Embedded, embedded, explore
from lcpinn.explorer.program import Program, trace

__all__ = ["Embedded", "Program", "embedded", "explore", "trace"]
