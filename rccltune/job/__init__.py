"""The user's own job, as it is and with the rules, in turns."""
