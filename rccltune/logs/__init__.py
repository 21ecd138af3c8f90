"""What programs print, read: benchmarks' tables, the plugin's traces, the library's log."""
