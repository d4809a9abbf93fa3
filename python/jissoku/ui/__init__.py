"""Local pages that start, watch and remember runs: a front end beside the command line."""
