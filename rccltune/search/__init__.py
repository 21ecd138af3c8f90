"""What to measure next so that choosing loses as little as possible."""
