"""What the main process and a worker say to each other: pickled pairs on the worker's pipes.

A request is ``(name, argument)``; a reply is ``(status, value)``, the value of a status other than
``OK`` being a line of text.
"""

OK = "ok"
WRONG = "wrong"
NOT_OFFERED = "not offered"
NOT_INSTALLED = "not installed"
FAILED = "failed"

DESCRIBE = "describe"  # -> version and settings, as text
OPEN = "open"  # Case -> None; makes the inputs and runs once
ROWS = "rows"  # list of query positions -> these rows of the output, float64
TIME = "time"  # seconds to spend -> best seconds of one call
MEMORY = "memory"  # Case -> (best seconds, bytes beyond inputs and output) of a call
