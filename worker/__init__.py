"""A reference worker: claims tasks, runs their commands, uploads what they made, reports how they ended."""
