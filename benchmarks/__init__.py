"""Benchmarks: headwise beside its peers, each result checked before it is timed.

Run ``python -m benchmarks --help`` from the root of the repository.
"""
