#!/bin/sh
# After `azd provision`: waits until the app's settings have the secrets of the vault.
# The app's role on the vault is new in a first deployment. A setting that is resolved before the role is in force stays
# a mere reference for a day, and the app would not start; so Azure is asked to look again.
set -eu

tries=${RESOLVE_TRIES:-40}
pause=${RESOLVE_SECONDS:-15}
references="https://management.azure.com/subscriptions/$AZURE_SUBSCRIPTION_ID/resourceGroups/$AZURE_RESOURCE_GROUP/providers/Microsoft.Web/sites/$AZURE_FUNCTION_APP_NAME/config/configreferences/appsettings"

while :; do
    if waiting=$(az rest --method get --url "$references?api-version=2024-04-01" \
        --query "value[?properties.status!='Resolved'].[name, properties.status]" --output tsv); then
        [ -n "$waiting" ] || exit 0
    else
        waiting="(Azure does not answer)"
    fi
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || break
    echo "resolve-secrets: waiting for $(echo "$waiting" | cut -f1 | tr '\n' ' ')"
    az rest --method post --url "$references/refresh?api-version=2024-04-01" --output none || true
    sleep "$pause"
done
echo "resolve-secrets: these settings do not have their secrets:
$waiting
AccessToKeyVaultDenied: the role of the app's identity is not in force yet: run infra/hooks/resolve-secrets.sh again in some
minutes (with the variables of azd env get-values). SecretNotFound: run azd provision again, which makes what is missing.
Anything else, with a closed vault: is the app in the virtual network (QUEUE_VIRTUAL_NETWORK)?" >&2
exit 1
