"""The REST API, and what every HTTP request passes on its way in and out."""
