"""The field's words, units, records and errors: what every package speaks in."""
