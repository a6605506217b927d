#!/bin/sh
# After `azd down`: what Azure keeps, and how to go on.
set -eu
echo "The key vault ${AZURE_KEY_VAULT_NAME:-} is kept, deleted, for 90 days: it is protected from being purged, and keeps its name.
It costs nothing. To deploy again under the same environment name, bring it back first, with its secrets:
  az group create --name ${AZURE_RESOURCE_GROUP:-rg-$AZURE_ENV_NAME} --location ${AZURE_LOCATION:-REGION}
  az keyvault recover --name ${AZURE_KEY_VAULT_NAME:-VAULT}
  azd up
or take another environment name (azd env new). The role of operators outlives its group:
  az role definition delete --name \"Queue operator (${AZURE_SUBSCRIPTION_ID:-SUBSCRIPTION}/$AZURE_ENV_NAME)\"
Alerts, logs and data are gone with the resource group."
