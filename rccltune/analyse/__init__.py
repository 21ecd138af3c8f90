"""Analysis of the table of samples: points, intervals, curves, crossovers, zones and the choice."""
