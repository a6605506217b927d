"""`./dev chaos`: task graphs on a stack whose workers, hosts, storage and broker are killed and frozen."""
