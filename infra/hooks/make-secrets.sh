#!/bin/sh
# Before `azd provision`: makes the secrets that the vault does not have, and hands them to the templates once.
# A secret that exists is never touched: new keys would make stored access tokens unreadable and end every claim.
# All questions go to Azure's management plane, so it works with a closed vault, and no value is read.
set -eu

fail() {
    echo "make-secrets: $1" >&2
    exit 1
}

# The id of the deployment's vault; nothing if there is none yet. The environment's own memory is not trusted: it is
# empty on another machine.
find_vault() {
    group=${AZURE_RESOURCE_GROUP:-rg-$AZURE_ENV_NAME}
    exists=$(az group exists --subscription "$AZURE_SUBSCRIPTION_ID" --name "$group") ||
        fail "cannot ask Azure for the resource group $group; is az logged in?"
    [ "$exists" = true ] || return 0
    found=$(az resource list --subscription "$AZURE_SUBSCRIPTION_ID" --resource-group "$group" \
        --resource-type Microsoft.KeyVault/vaults --query '[].id' --output tsv) ||
        fail "cannot list the key vaults of $group"
    case $found in
    *"
"*) fail "$group has several key vaults" ;;
    esac
    echo "$found"
}

# key BYTES: so many random bytes in URL-safe base64. Commands would take one that begins with `-` for an option.
key() {
    made=$(openssl rand -base64 "$1" | tr -d '\n' | tr '+/' '-_')
    case $made in
    -*) key "$1" ;;
    *) echo "$made" ;;
    esac
}

# offer SECRET VARIABLE BYTES: a new value for the templates, if the vault has none.
offer() {
    if [ -n "$vault" ]; then
        if answer=$(az resource show --ids "$vault/secrets/$1" --api-version 2026-02-01 --query name 2>&1); then
            azd env set "$2="
            return
        fi
        case $answer in
        *SecretNotFound* | *ResourceNotFound*) ;;
        *) fail "cannot tell whether there is a secret $1: $answer" ;;
        esac
    fi
    # What another deployment had, after the loss of its region, or what an attempt that failed has made.
    eval "given=\${$2:-}"
    if [ -n "$given" ]; then
        echo "make-secrets: taking $1 from the environment"
        return
    fi
    echo "make-secrets: making $1"
    azd env set "$2=$(key "$3")"
}

vault=$(find_vault)
offer root-access-token QUEUE_NEW_ROOT_ACCESS_TOKEN 33
offer message-signing-keys QUEUE_NEW_MESSAGE_SIGNING_KEYS 33
offer access-token-keys QUEUE_NEW_ACCESS_TOKEN_KEYS 32
