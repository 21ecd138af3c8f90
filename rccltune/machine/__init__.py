"""What this machine is: devices, links, mode, libraries, hosts; and what spoils a measurement."""
