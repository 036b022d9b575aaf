# Holds the lock until it is lost: URL TTL_MS.

TENURE_SERVICE=$1 LOCK_TTL_MS=$2 LOCK_WAIT_MS=60000 "$CLIENTS/tenure-lock.sh" x sh -c '
  trap "echo lost; exit" TERM
  echo held
  while :; do sleep 0.02; done'
[ $? = 79 ]
