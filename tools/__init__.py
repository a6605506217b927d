"""What is around the app and never deployed: the local stack, operators' commands, a subscriber, benchmarks."""
