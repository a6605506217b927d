#!/bin/sh
# After `azd provision`: the secrets are in the vault, and need not lie in the environment's file any longer.
set -eu

azd env set QUEUE_NEW_ROOT_ACCESS_TOKEN= QUEUE_NEW_MESSAGE_SIGNING_KEYS= QUEUE_NEW_ACCESS_TOKEN_KEYS=
