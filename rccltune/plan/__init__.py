"""What is to be measured, as launches in an order that spreads drift."""
