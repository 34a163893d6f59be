"""Operating a server: settings, logs, metrics and system programs."""
