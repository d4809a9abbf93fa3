"""Local pages that start, watch and list runs: a front end besides the command line."""
