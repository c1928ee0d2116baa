"""The `fusewire` command: a file for each of its commands, found by `main`."""
