"""What goes wrong, done on purpose: a file is a fault, `python -m benchmarks.chaos` does them all.

Every case has random numbers of its own, so that a run can be split into parts and continued.
"""
