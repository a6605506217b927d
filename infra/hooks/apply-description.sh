#!/bin/sh
# Before `azd provision`: azd's environment says what infra/deployments/<environment>.json says, and what would change is
# shown. What is dangerous of it takes a word (QUEUE_CONFIRM).
set -eu
cd "$(dirname "$0")/../.."
for python in python3 python3.13 python3.12 python3.11; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" -m tools.local.deployments ${QUEUE_DEPLOYMENTS:+--folder "$QUEUE_DEPLOYMENTS"} apply
    fi
done
echo "apply-description: Python 3.11 or newer is needed, and not on the PATH" >&2
exit 1
