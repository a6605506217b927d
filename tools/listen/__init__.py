"""Listen to an exchange: a subscription made from a routing-key pattern, printed as JSON lines (docs/events.md)."""
