-- Gets in line, if not there already.
-- KEYS: waiters in line, fence   ARGV: ticket
line_up(KEYS[1], KEYS[2], ARGV[1])
return 1
