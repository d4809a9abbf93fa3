"""Packages of the server for operating systems."""
