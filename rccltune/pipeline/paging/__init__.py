"""What a session's page says: each module makes a part of it from what was gathered."""
