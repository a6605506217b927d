"""How it is built: pure functions and single parts, and the local stack that stands for Azure."""
