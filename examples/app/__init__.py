"""An example application: what it does is in `jobs`."""
