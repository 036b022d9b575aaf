#!/bin/sh
# Runs a command under a lock of Tenure's service, with nothing but a shell and curl (on Linux):
#
#     TENURE_SERVICE='http://127.0.0.1:7420' tenure-lock.sh import ./import.sh
#
# The command sees TENURE_FENCE, for the resource that it changes to refuse smaller ones. The lock is
# extended in the background. It is ours until a time counted from before the request was sent: an
# answer can be held up on its way. When that time comes near, the command and its process group are
# stopped. `tenure run --service` does the same with more care.
#
# TENURE_SERVICE  URLs of the instances, separated by spaces
# LOCK_TTL_MS, LOCK_WAIT_MS   how long the lock lives if nobody extends it; how long to wait for it
# LOCK_CALLER_TOKEN           for a service that wants to know who calls
#
# Exit codes: the command's own; 75 another holds the lock; 69 no instance could help; 79 lost.

name=$1; shift
ttl=${LOCK_TTL_MS:-30000} wait=${LOCK_WAIT_MS:-0} instances=$TENURE_SERVICE
state=$(mktemp -d) || exit 70
trap 'rm -rf "$state"' EXIT

# Milliseconds by a clock that nobody sets and that counts while the machine sleeps.
now() { read -r up _ < /proc/uptime; echo "${up%.*}${up#*.}0"; }

# A word as JSON or as a setting of curl's.
quoted() { printf '"%s"' "$(printf %s "$1" | sed 's/["\\]/\\&/g')"; }

# A number or a string of a flat JSON object.
field() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' "$state/answer" | head -n 1; }

seconds() { printf '%d.%03d' "$(($1 / 1000))" "$(($1 % 1000))"; }

# POST: call PATH BODY LIMIT_MS [KEY]. Leaves the answer, when it was asked for, and its status; tries one
# instance after the other while they cannot help. Secrets go through a pipe: arguments are for all to
# see.
call() {
  for instance in $instances; do
    sent=$(now)
    status=$({
      echo "url = $(quoted "$instance$1")"
      echo "data = $(quoted "$2")"
      echo 'header = "Content-Type: application/json"'
      [ -z "$4" ] || echo "header = $(quoted "Idempotency-Key: $4")"
      [ -z "$LOCK_CALLER_TOKEN" ] || echo "header = $(quoted "Authorization: Bearer $LOCK_CALLER_TOKEN")"
    } | curl -s -K - --max-time "$(seconds "$3")" -o "$state/answer" -w '%{http_code}')
    case $status in
      408 | 429 | 5?? | 000) instances="${instances#"$instance"} $instance"; instances=${instances# } ;;
      *) return 0 ;;
    esac
  done
  return 1
}

# What was promised, by our clock; a hundredth of a second less, because the clock counts in those.
keep() {
  until=$((sent + $(field started_after_ms) + $(field valid_ms) - 10))
  field token > "$state/token.new" && mv "$state/token.new" "$state/token"
}

lease() { printf '{"name":%s,"token":"%s"}' "$(quoted "$name")" "$(cat "$state/token")"; }

# Without an answer nobody knows who has the lock, so the same question is sent again, with the same
# key: whoever got the lock by it gets it again, and does not wait for itself.
acquire() {
  deadline=$(($(now) + wait)) key=
  while :; do
    if [ -z "$key" ]; then
      # One call waits for half a minute at most: many proxies close connections that are silent.
      left=$((deadline - $(now))); left=$((left < 0 ? 0 : left > 30000 ? 30000 : left))
      key=$(cat /proc/sys/kernel/random/uuid)
      question="{\"name\":$(quoted "$name"),\"ttl_ms\":$ttl,\"wait_ms\":$left}"
    fi
    code=69
    if call /v1/acquire "$question" $((left + 5000)) "$key"; then
      if [ "$status" = 200 ]; then
        keep
        [ "$(now)" -ge "$until" ] || return 0 # An answer that came too late is no lock.
        continue
      elif [ "$(field yours)" = true ]; then
        # By its key, at an instance that does not know its token. It is given back.
        call /v1/release "{\"name\":$(quoted "$name"),\"idempotency_key\":\"$key\",\"holder\":\"$(field holder)\"}" 5000
        key=; continue
      fi
      case $(field type) in
        urn:tenure:contended | urn:tenure:not-held) code=75 key= ;;
        urn:tenure:still-running) code=75 ;;
        *) cat "$state/answer" >&2; return 64 ;;
      esac
    fi
    [ "$(now)" -lt "$deadline" ] || return "$code"
    [ -z "$key" ] || sleep 0.2
  done
}

# Extends the lock until it is lost, and then stops the command's group.
renew() {
  next=$(($(now) + ttl / 3))
  while left=$((until - $(now))); [ "$left" -gt 100 ]; do
    if [ "$left" -le $((ttl / 6)) ] && [ ! -e "$state/lost" ]; then
      : > "$state/lost"; kill -TERM "-$1"
    fi
    if [ "$(now)" -lt "$next" ]; then
      pause=$((next - $(now))); sleep "$(seconds $((pause > left / 4 ? left / 4 : pause)))"
    elif ! call /v1/extend "$(lease)" $((left / 4)); then
      next=$(($(now) + 200)) # What was promised before still counts.
    elif [ "$status" = 200 ]; then
      keep; next=$((sent + ttl / 3))
    else
      until=0
    fi
  done
  : > "$state/lost"; kill -KILL "-$1"
}

acquire || exit
TENURE_FENCE=$(field fence); export TENURE_FENCE
# In a process group of its own, so that all of it can be stopped.
setsid "$@" & command=$!
trap 'kill -TERM "-$command"' INT TERM
renew "$command" > /dev/null 2>&1 & renewal=$!
while wait "$command"; code=$?; kill -0 "$command" 2> /dev/null; do :; done
kill -KILL "$renewal" 2> /dev/null
[ ! -e "$state/lost" ] || code=79
call /v1/release "$(lease)" 5000
exit "$code"
