"""Detection of this machine: devices, links, mode, libraries, hosts; and its findings."""
