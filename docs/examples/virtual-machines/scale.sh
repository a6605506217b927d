#!/bin/sh
# Once a minute, wherever `az` is signed in as someone who may change the scale set: removes machines that have shut down,
# and starts as many as the task queue lacks. It never removes one that runs: those end by themselves when idle.
#   LOAD_URL   https://<app>/api/queue/v1/task-queues/my-team%2Flinux/load
#   BEWIT      what `./dev admin worker-client create` made
#   GROUP, SCALE_SET, MOST (machines at a time), CAPACITY (tasks of a machine at a time)
set -eu

stopped=$(az vmss list-instances --resource-group "$GROUP" --name "$SCALE_SET" --expand instanceView \
    --query "[?instanceView.statuses[?code=='PowerState/stopped']].instanceId" --output tsv)
if [ -n "$stopped" ]; then
    # shellcheck disable=SC2086 # one word for each machine
    az vmss delete-instances --resource-group "$GROUP" --name "$SCALE_SET" --instance-ids $stopped
fi

unresolved=$(curl --fail --silent --show-error --config - <<EOF | jq --exit-status .unresolvedTasks
url = "$LOAD_URL?bewit=$BEWIT"
EOF
)
running=$(az vmss show --resource-group "$GROUP" --name "$SCALE_SET" --query sku.capacity --output tsv)
wanted=$(((unresolved + CAPACITY - 1) / CAPACITY))
[ "$wanted" -le "$MOST" ] || wanted=$MOST
if [ "$wanted" -gt "$running" ]; then
    az vmss scale --resource-group "$GROUP" --name "$SCALE_SET" --new-capacity "$wanted" --no-wait
fi
echo "$unresolved unresolved, $running machines, $wanted wanted"
