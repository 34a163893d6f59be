"""Code that all families share: cases, goals, endings, the staged company and the building blocks of experts."""
