"""HTTP: the REST API, its description, and the checks that every request passes."""
