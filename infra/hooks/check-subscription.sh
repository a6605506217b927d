#!/bin/sh
# Before `azd provision`: what a deployment would stumble over later and say less clearly.
set -eu

fail() {
    echo "check-subscription: $1" >&2
    exit 1
}

case $AZURE_ENV_NAME in
*.) fail "the name of a resource group, rg-$AZURE_ENV_NAME, cannot end with a dot: choose another environment name" ;;
esac

# Flex Consumption is not offered everywhere, zone-redundant in fewer regions.
set -- functionapp list-flexconsumption-locations --query '[].name' --output tsv
[ "${QUEUE_PROFILE:-small}" != large ] || set -- "$@" --zone-redundant
if regions=$(az "$@") && [ -n "$regions" ]; then
    wanted=$(echo "$AZURE_LOCATION" | tr -d ' ' | tr '[:upper:]' '[:lower:]')
    echo "$regions" | tr -d ' ' | tr '[:upper:]' '[:lower:]' | grep -qx "$wanted" ||
        fail "the profile ${QUEUE_PROFILE:-small} cannot run in $AZURE_LOCATION; these regions have its plan:
$regions"
else
    echo "check-subscription: cannot list the regions of Flex Consumption; going on" >&2
fi

# A virtual network is delegated to this provider, and no resource of it in the templates makes Azure register it.
state=$(az provider show --subscription "$AZURE_SUBSCRIPTION_ID" --namespace Microsoft.App --query registrationState --output tsv) ||
    fail "cannot ask whether Microsoft.App is registered in the subscription"
if [ "$state" != Registered ]; then
    echo "check-subscription: registering Microsoft.App, which virtual networks need"
    az provider register --subscription "$AZURE_SUBSCRIPTION_ID" --namespace Microsoft.App --wait ||
        fail "Microsoft.App cannot be registered: have an owner of the subscription run
  az provider register --subscription $AZURE_SUBSCRIPTION_ID --namespace Microsoft.App --wait"
fi

# A vault that was deleted keeps its name for 90 days, and a new one would get the same.
group=${AZURE_RESOURCE_GROUP:-rg-$AZURE_ENV_NAME}
deleted=$(az keyvault list-deleted --subscription "$AZURE_SUBSCRIPTION_ID" --resource-type vault \
    --query "[?contains(properties.vaultId, '/resourceGroups/$group/') && properties.location=='$AZURE_LOCATION'].name" \
    --output tsv) || {
    echo "check-subscription: cannot list deleted key vaults; going on" >&2
    deleted=
}
[ -z "$deleted" ] || fail "the key vault $deleted of an earlier $group is deleted, and protected from being purged.
Bring it back with its secrets, and run this again:
  az group create --subscription $AZURE_SUBSCRIPTION_ID --name $group --location $AZURE_LOCATION
  az keyvault recover --subscription $AZURE_SUBSCRIPTION_ID --name $deleted
or take another environment name: azd env new"
