"""The company's tools over the Model Context Protocol."""
