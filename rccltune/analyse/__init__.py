"""From the table of samples to a choice: points, noise, curves, crossovers, zones."""
