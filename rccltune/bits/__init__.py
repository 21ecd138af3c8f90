"""Rules under the condition that results keep their bits (docs/bits.md)."""
