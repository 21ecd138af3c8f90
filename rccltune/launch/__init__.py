"""One argv, one environment, one process tree, one ending; and the launchers that start ranks."""
