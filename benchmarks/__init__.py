"""Benchmarks: what a step costs. Run with `python -m benchmarks`; see results/ for the numbers."""
