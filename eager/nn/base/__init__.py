"""Modules, parameters, containers and initial values."""
