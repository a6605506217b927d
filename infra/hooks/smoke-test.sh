#!/bin/sh
# After `azd deploy`: the app answers, it is the version that was deployed, and storage answers it. If not: what to do.
# It also writes down what only a deployment shows, beside azd's environment and, in a pipeline, into the run's summary.
set -eu

root=${TASKCLUSTER_ROOT_URL:-$(azd env get-value TASKCLUSTER_ROOT_URL)}
root=${root%/}
tries=${SMOKE_TRIES:-40}
pause=${SMOKE_SECONDS:-6}
answer=$(mktemp)
trap 'rm -f "$answer" "$answer.headers" "$answer.large"' EXIT
began=$(date +%s)
trace=smoke-test-$began

fail() {
    echo "smoke-test: $1" >&2
    [ ! -s "$answer" ] || head -c 600 "$answer" >&2
    exit 1
}

# ask PATH: prints the status, 000 without an answer.
ask() {
    : >"$answer"
    curl --silent --max-time 30 --header "x-taskcluster-trace-id: $trace" --dump-header "$answer.headers" \
        --output "$answer" --write-out '%{http_code}' "$root/api/queue/v1/$1" || true
}

# saw TEXT: writes down what was seen.
saw() {
    echo "smoke-test: seen: $1"
    kept=.azure/${AZURE_ENV_NAME:-}
    [ -z "${AZURE_ENV_NAME:-}" ] || [ ! -d "$kept" ] || echo "$(date -u +%FT%TZ) $1" >>"$kept/seen.txt"
    [ -z "${GITHUB_STEP_SUMMARY:-}" ] || echo "* $1" >>"$GITHUB_STEP_SUMMARY"
}

# loads: whether this checkout can be imported with the settings that Azure has, as the worker does it.
loads() {
    az functionapp config appsettings list --subscription "${AZURE_SUBSCRIPTION_ID:-}" \
        --resource-group "${AZURE_RESOURCE_GROUP:-}" --name "${AZURE_FUNCTION_APP_NAME:-}" --output json |
        "$(dirname "$0")/../../dev" loads 2>&1 || true
}

if [ "${QUEUE_APP_PUBLIC_ACCESS:-Enabled}" = Disabled ]; then
    code=$(ask ping)
    case $code in
    000 | 403)
        echo "smoke-test: the app is closed to the public network, and cannot be asked from here. Run this inside the network:
  TASKCLUSTER_ROOT_URL=$root QUEUE_APP_PUBLIC_ACCESS= infra/hooks/smoke-test.sh"
        exit 0
        ;;
    esac
fi

# A new app needs some time until it answers: it is fetched, started, and its name has to spread.
code=$(ask ping)
while [ "$code" != 200 ] && [ "$tries" -gt 1 ]; do
    tries=$((tries - 1))
    sleep "$pause"
    code=$(ask ping)
done
case $code in
200) ;;
000) fail "$root does not answer. Is the name right (TASKCLUSTER_ROOT_URL), and, with a domain of your own, does it point to the app?" ;;
403) fail "the app refuses the public network (403): appPublicAccess of the description, or access restrictions of yours. Test from inside." ;;
404)
    : >"$answer"
    fail "the app runs, but has no functions (404). The host could not load them. In this order:
  1. settings: $(loads)
  2. secrets: infra/hooks/resolve-secrets.sh waits until all settings have theirs;
  3. the package: it has to be the one of ./dev package, deployed without a remote build (azd deploy does that);
  4. the app's own words: AppExceptions in Log Analytics; the console says nothing." ;;
*) fail "the app answers $code. AppExceptions and AppTraces in Log Analytics say why; docs/operations.md says where to look." ;;
esac

code=$(ask __version__)
[ "$code" = 200 ] || fail "__version__ answers $code, though the app runs: deploy once more (azd deploy)"
case ${QUEUE_APP_VERSION:-unknown} in
unknown) ;;
*) grep -qF "\"$QUEUE_APP_VERSION\"" "$answer" ||
    fail "the app does not say that it is $QUEUE_APP_VERSION. Settings are older than the package: azd provision, then azd deploy." ;;
esac

if [ -n "${AZURE_UPLOADS_APP_NAME:-}" ]; then
    uploads="https://$AZURE_UPLOADS_APP_NAME.azurewebsites.net/__version__"
    code=$(curl --silent --max-time 60 --output "$answer" --write-out '%{http_code}' "$uploads" || true)
    [ "$code" = 200 ] || fail "the app for uploads answers $code at $uploads: scriptworkers cannot upload. Deploy once more (azd deploy)"
fi

# Nobody may read this task, or there is none: either takes a look at the tables, for which roles have to be in force.
code=$(ask task/AAAAAAAAQACAAAAAAAAAAA/status)
while [ "$code" = 503 ] && [ "$tries" -gt 1 ]; do
    tries=$((tries - 1))
    sleep "$pause"
    code=$(ask task/AAAAAAAAQACAAAAAAAAAAA/status)
done
case $code in
403 | 404) ;;
503) fail "the app cannot reach its tables (503). In a first deployment roles may need up to ten minutes: run infra/hooks/smoke-test.sh
again. With a closed storage account: is the app in the virtual network?" ;;
*) fail "the status of a task that does not exist answers $code, which should be 403 or 404" ;;
esac
saw "the app and its tables answer after $(($(date +%s) - began)) s"
if grep -qi "^x-for-trace-id: $trace" "$answer.headers"; then
    saw "a header of the caller arrives as it was sent"
else
    saw "a header of the caller does not arrive: $(grep -i '^x-for-trace-id:' "$answer.headers" | tr -d '\r')"
fi
code=$(ask task-queues/smoke%2Ftest/counts)
if [ "$code" = 403 ] && grep -q 'count:smoke/test' "$answer"; then
    saw "a slash that is encoded in a path arrives as part of its segment"
else
    saw "a slash that is encoded in a path answers $code: $(head -c 200 "$answer" | tr '\n' ' ')"
fi
# A file without content on the disk; a server that refuses its length is sent nothing.
dd if=/dev/null of="$answer.large" bs=1 seek=$((101 * 1024 * 1024)) 2>/dev/null
code=$(curl --silent --max-time 60 --header 'expect: 100-continue' --header 'content-type: application/json' \
    --request POST --upload-file "$answer.large" --output /dev/null --write-out '%{http_code}' "$root/api/queue/v1/ping" || true)
saw "a body of 101 MiB is answered $code"
host=$(az rest --method get --query version --output tsv --url "https://management.azure.com/subscriptions/${AZURE_SUBSCRIPTION_ID:-}/resourceGroups/${AZURE_RESOURCE_GROUP:-}/providers/Microsoft.Web/sites/${AZURE_FUNCTION_APP_NAME:-}/hostruntime/admin/host/status?api-version=2025-03-01" 2>/dev/null) ||
    host="not shown to who deploys"
saw "the version of the Functions host: $host"
echo "smoke-test: $root works. ./dev admin verify checks the rest."
