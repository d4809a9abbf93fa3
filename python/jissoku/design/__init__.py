"""What is measured, in which order: pure plans from a seed."""
