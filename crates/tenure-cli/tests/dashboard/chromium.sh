#!/bin/sh
# Chromium that does not outlive its driver, even if that is killed.
exec setpriv --pdeathsig KILL -- chromium "$@"
