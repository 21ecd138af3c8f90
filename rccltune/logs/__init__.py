"""Readers of what programs print: benchmarks' tables, the plugin's and the library's log."""
