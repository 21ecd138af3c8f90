"""Figures and the page: a session as something to look at and to mail."""
