#!/bin/sh
# build.sh FILE: builds scale.go with KEDA's own scaler, from the Go proxy. The other scalers are left out: they would bring
# the SDKs of every cloud.
set -eu
version=v2.21.0
here=$(cd "$(dirname "$0")" && pwd)
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
folder=$(go mod download -json "github.com/kedacore/keda/v2@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp -r "$folder/." "$sources"
chmod -R u+w "$sources"
find "$sources/pkg/scalers" -maxdepth 1 -name '*.go' ! -name scaler.go ! -name metrics_api_scaler.go ! -name azure_queue_scaler.go -delete
mkdir -p "$sources/cmd/scale"
cp "$here/scale.go" "$sources/cmd/scale/main.go"
output=$(realpath "$1")
cd "$sources"
GOFLAGS=-mod=mod go build -o "$output" ./cmd/scale
