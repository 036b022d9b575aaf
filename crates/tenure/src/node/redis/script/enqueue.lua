-- Gets in line, if not there already.
line_up(KEYS.line, KEYS.fence, ARGV.ticket)
return OUTCOME.DONE
