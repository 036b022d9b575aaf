# Counts in a file under the lock: URL FILE TIMES. A fence that does not grow ends it with an error.

export TENURE_SERVICE="$1" FILE="$2" LOCK_TTL_MS=5000 LOCK_WAIT_MS=600000
times=$3
while [ "$times" -gt 0 ]; do
  "$CLIENTS/tenure-lock.sh" counter sh -c '
    read -r count fence < "$FILE"
    [ "$TENURE_FENCE" -gt "$fence" ] || { echo "fence $TENURE_FENCE after $fence" >&2; exit 1; }
    echo "$((count + 1)) $TENURE_FENCE" > "$FILE"' || exit
  times=$((times - 1))
done
