"""What all families share: cases, goals, endings, the staged company and the expert's building blocks."""
