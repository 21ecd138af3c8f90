"""A session's rules and the plugin as a folder that a site's jobs can use."""
