"""Analysis of the table of samples: points, noise, curves, crossovers, zones and the choice."""
