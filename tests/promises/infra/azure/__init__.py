"""A stub of Azure for the real azd: ARM behind a proxy, and an `az` that answers from the same state.

azd, curl and Python reach it by HTTPS_PROXY and the proxy's own certificate authority, so that nothing leaves this
machine. What a deployment creates is what the evaluated templates say (local/templates).
"""
