"""Names and layouts of other libraries. Each adapter imports its library only when it is used."""
