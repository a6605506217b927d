"""`python -m worker`."""

from worker.worker import main

main()
