#!/bin/sh
# On each machine, as root, when it starts: fetches the client's token from the vault, writes generic-worker's
# configuration, and runs it. The machine shuts down when generic-worker has been idle for idleTimeoutSecs.
# /etc/generic-worker/deployment.env has what differs from one task queue to another.
set -eu
umask 077
. /etc/generic-worker/deployment.env

metadata() {
    curl --fail --silent --show-error --retry 10 --retry-connrefused --header Metadata:true \
        "http://169.254.169.254/metadata/$1"
}

# The identity is for this script: tasks, which run as other users, cannot ask for its tokens.
iptables --check OUTPUT --destination 169.254.169.254 --match owner ! --uid-owner 0 --jump REJECT 2>/dev/null ||
    iptables --append OUTPUT --destination 169.254.169.254 --match owner ! --uid-owner 0 --jump REJECT

bearer=$(metadata "identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fvault.azure.net&client_id=$IDENTITY_CLIENT_ID" |
    jq --exit-status --raw-output .access_token)
token=$(curl --fail --silent --show-error --retry 10 --config - "$SECRET_URL?api-version=7.4" <<EOF | jq --exit-status --raw-output .value
header = "Authorization: Bearer $bearer"
EOF
)
# Where live logs are reached from inside the network. Without an address generic-worker fails on its first task.
address=$(metadata "instance/network/interface/0/ipv4/ipAddress/0/privateIpAddress?api-version=2021-02-01&format=text")
# Unique among the machines of the group: the name of the instance, with characters that ids may have.
worker=$(metadata "instance/compute/name?api-version=2021-02-01&format=text" | tr -c 'a-zA-Z0-9-' - | tail -c 38)

TOKEN=$token WORKER=$worker ADDRESS=$address jq \
    --arg rootURL "$ROOT_URL" --arg queue "$TASK_QUEUE_ID" --arg group "$WORKER_GROUP" '
    .accessToken = env.TOKEN | .clientId = "worker/" + $queue | .rootURL = $rootURL
    | .provisionerId = ($queue | split("/")[0]) | .workerType = ($queue | split("/")[1])
    | .workerGroup = $group | .workerId = env.WORKER | .publicIP = env.ADDRESS' \
    /usr/local/share/generic-worker.json >/etc/generic-worker/config.json

[ -e /etc/generic-worker/ed25519.key ] ||
    generic-worker new-ed25519-keypair --file /etc/generic-worker/ed25519.key
exec generic-worker run --config /etc/generic-worker/config.json
