"""What the product promises: its wire, its guarantees under faults, its deployment, and its tools."""
