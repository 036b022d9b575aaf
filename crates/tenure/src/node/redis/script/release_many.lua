-- Ends several locks, each as `release`, the text of release.lua, does without a ticket or label:
-- the first in line is next.
--
-- KEYS: the locks; then the line of each; then the opening of each
--
-- ARGV: the owner of each
--
-- DONE if each was its owner's and nobody is in line for it. Else for each what it answers.
local count = #ARGV
local owners, all = redis.call('MGET', unpack(KEYS, 1, count)), true
for i = 1, count do
    all = all and owners[i] == ARGV[i]
end
if all and redis.call('EXISTS', unpack(KEYS, count + 1, 2 * count)) == 0 then
    redis.call('DEL', unpack(KEYS, 1, count))
    return OUTCOME.DONE
end
local told = {}
for i = 1, count do
    -- What is wrong with one of them must not stop the others.
    local done, answer = pcall(release, {KEYS[i], KEYS[count + i], KEYS[2 * count + i]}, {ARGV[i]})
    if not done and type(answer) ~= 'table' then
        answer = {err = answer}
    end
    told[i] = answer
end
return told
