"""What will be measured, in which order: pure plans from a seed."""
