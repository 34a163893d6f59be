"""The kernel: records and their history, calls, task ids, transcripts and errors. It knows nothing about companies."""
