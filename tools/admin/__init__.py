"""Administration from the shell, of any deployment: through its API, and with a look into its storage account."""
