#!/usr/bin/env bash
# The step of action.yml: fetches a release of dynashard for this runner, checks it, starts its engine, and tells the job's later steps
# where it is.
#
#   VERSION   the release; if empty, the one that Cargo.toml names
#   RELEASES  the URL below which releases lie, each in a folder v$VERSION
#   ARGS      more flags of `dynashard local --engine-only`
#   PORT      the port on 127.0.0.1; 0 takes a free one
set -euo pipefail

fail() {
    echo "::error title=dynashard::$*"
    exit 1
}

manifest="$(dirname "$0")/../Cargo.toml"
version="${VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' "$manifest" | head -n 1)}"
version="${version#v}"
case "$RUNNER_OS-$RUNNER_ARCH" in
    Linux-X64) target=x86_64-unknown-linux-musl ;;
    Linux-ARM64) target=aarch64-unknown-linux-musl ;;
    macOS-X64) target=x86_64-apple-darwin ;;
    macOS-ARM64) target=aarch64-apple-darwin ;;
    *) fail "this action lacks a program for $RUNNER_OS on $RUNNER_ARCH; use a runner with Linux or macOS, on X64 or ARM64" ;;
esac

name="dynashard-$version-$target"
folder="$(mktemp -d "$RUNNER_TEMP/dynashard-XXXXXX")"
cd "$folder"
for file in "$name.tar.gz" SHA256SUMS-installed; do
    curl --proto =https,file --proto-redir =https --fail --silent --show-error --location --retry 3 --output "$file" "$RELEASES/v$version/$file" ||
        fail "$RELEASES/v$version/$file cannot be fetched; is $version a release?"
done
sums=(sha256sum)
if ! command -v sha256sum > /dev/null; then sums=(shasum --algorithm 256); fi
grep --fixed-strings "  $name.tar.gz" SHA256SUMS-installed > sum || fail "SHA256SUMS-installed does not name $name.tar.gz"
"${sums[@]}" --check sum > /dev/null || fail "$name.tar.gz is not what SHA256SUMS-installed says"
tar -xzf "$name.tar.gz"

# It says one line when it answers. If it ends before, there is none.
mkfifo ready
# Its words may stand in several lines.
read -r -d '' -a args <<< "$ARGS" || true
"$name/bin/dynashard" local --engine-only --dynamodb-port "$PORT" ${args[@]+"${args[@]}"} > ready 2> log < /dev/null &
pid=$!
line=""
read -r -t 60 line < ready || true
endpoint="$(sed -n 's/.*"dynamodb":"\([^"]*\)".*/\1/p' <<< "$line")"
if [ -z "$endpoint" ]; then
    cat log
    fail "the engine did not start: $(head -n 1 log)"
fi

set_unless_set() {
    if [ -z "${!1:-}" ]; then echo "$1=$2" >> "$GITHUB_ENV"; fi
}
echo "AWS_ENDPOINT_URL_DYNAMODB=$endpoint" >> "$GITHUB_ENV"
# The SDKs want credentials and a region, and the engine takes any.
if [ -z "${AWS_ACCESS_KEY_ID:-}" ]; then
    printf '%s\n' AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local >> "$GITHUB_ENV"
fi
set_unless_set AWS_REGION "${AWS_DEFAULT_REGION:-us-east-1}"
set_unless_set AWS_DEFAULT_REGION "${AWS_REGION:-us-east-1}"
printf '%s\n' "endpoint=$endpoint" "pid=$pid" "log=$folder/log" >> "$GITHUB_OUTPUT"
echo "The engine $version answers at $endpoint"
