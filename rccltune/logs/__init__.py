"""What programs print, read: benchmarks' tables, the plugin's and the library's log."""
