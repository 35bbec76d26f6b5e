"""The cases of ``headwise check``, group by group."""
