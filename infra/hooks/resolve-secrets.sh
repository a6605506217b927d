#!/bin/sh
# After `azd provision`: waits until the settings of the apps have the secrets of the vault.
# The app's role on the vault is new in a first deployment. A setting that is resolved before the role is in force stays
# a mere reference for a day, and the app would not start; so Azure is asked to look again.
# resolve-secrets.sh --refresh: after a change of the vault's secrets. A restart alone brings what Azure fetched last, which
# it fetches again once a day. What azd knows of the deployment is asked of azd. It takes the rights of who deploys.
set -eu

refresh=${1:-}
for variable in AZURE_SUBSCRIPTION_ID AZURE_RESOURCE_GROUP AZURE_FUNCTION_APP_NAME AZURE_UPLOADS_APP_NAME AZURE_NOTIFY_APP_NAME; do
    eval "[ -n \"\${$variable+set}\" ]" || eval "$variable=\$(azd env get-value $variable)"
done

tries=${RESOLVE_TRIES:-40}
pause=${RESOLVE_SECONDS:-15}
began=$(date +%s)
sites="https://management.azure.com/subscriptions/$AZURE_SUBSCRIPTION_ID/resourceGroups/$AZURE_RESOURCE_GROUP/providers/Microsoft.Web/sites"

# resolve APP: waits; 1 if its secrets do not come, and says in $waiting which.
resolve() {
    references="$sites/$1/config/configreferences/appsettings"
    if [ "$refresh" = --refresh ]; then
        az rest --method post --url "$references/refresh?api-version=2025-03-01" --output none || {
            waiting="(Azure does not fetch them again)"
            return 1
        }
    fi
    while :; do
        if waiting=$(az rest --method get --url "$references?api-version=2025-03-01" \
            --query "value[?properties.status!='Resolved'].[name, properties.status]" --output tsv); then
            [ -n "$waiting" ] || break
        else
            waiting="(Azure does not answer)"
        fi
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        echo "resolve-secrets: waiting for $(echo "$waiting" | cut -f1 | tr '\n' ' ')"
        az rest --method post --url "$references/refresh?api-version=2025-03-01" --output none || true
        sleep "$pause"
    done
    [ "$refresh" != --refresh ] || az functionapp restart --subscription "$AZURE_SUBSCRIPTION_ID" \
        --resource-group "$AZURE_RESOURCE_GROUP" --name "$1"
}

all() {
    for app in "$AZURE_FUNCTION_APP_NAME" ${AZURE_UPLOADS_APP_NAME:-} ${AZURE_NOTIFY_APP_NAME:-}; do
        resolve "$app" || return 1
    done
}

if all; then
    echo "resolve-secrets: the settings have their secrets after $(($(date +%s) - began)) s"
    exit 0
fi
echo "resolve-secrets: these settings do not have their secrets:
$waiting
AccessToKeyVaultDenied: the role of the app's identity is not in force yet: run infra/hooks/resolve-secrets.sh again in some
minutes. SecretNotFound: run azd provision --no-state, which makes what is missing.
Anything else, with a closed vault: is the app in the virtual network (virtualNetwork of the description)?" >&2
exit 1
