"""NPKit: whether a library has it, what it dumped, and a trace of that."""
