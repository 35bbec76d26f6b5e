"""What `make_reference.py` writes: the tables and the pictures of ``docs/statistics.md``."""
