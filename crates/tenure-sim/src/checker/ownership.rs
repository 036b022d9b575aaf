//! Nobody touches what another one owns: clients name only tokens that they drew or were handed,
//! and a key of a token is changed only by commands that name it, or by its end.

use std::collections::BTreeMap;

use tenure_core::{Command, Entry, Hold, Owner, OwnerToken};

use super::Violation;

/// Who drew which token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ownership {
    drawn: BTreeMap<OwnerToken, Drawn>,
}

#[derive(Clone, Copy, Debug)]
struct Drawn {
    client: usize,
    generation: u32,
    at_ns: u64,
}

impl Ownership {
    /// A process has drawn a token, or goes on with it.
    pub(crate) fn draw(&mut self, now_ns: u64, token: OwnerToken, client: usize, generation: u32) {
        self.drawn.insert(token, Drawn { client, generation, at_ns: now_ns });
    }

    /// When a token was drawn.
    pub(crate) fn drawn_ns(&self, token: OwnerToken) -> Option<u64> {
        self.drawn.get(&token).map(|drawn| drawn.at_ns)
    }

    /// Which client drew a token, or goes on with it.
    pub(crate) fn drawn_by(&self, token: OwnerToken) -> Option<usize> {
        self.drawn.get(&token).map(|drawn| drawn.client)
    }

    /// A process sends a command.
    pub(crate) fn sent(&self, client: usize, generation: u32, command: &Command) -> Option<Violation> {
        let drawn = self.drawn.get(&command.owner()?);
        let own = drawn.is_some_and(|drawn| (drawn.client, drawn.generation) == (client, generation));
        (!own).then_some(Violation::ForeignToken { client, owner: drawn.map(|drawn| drawn.client) })
    }

    /// A node has executed a command of a client; its key was like this before, and like that
    /// afterwards, and so were the holds of those who share it, or of its owner.
    pub(crate) fn executed(
        &self,
        node: usize,
        client: usize,
        command: &Command,
        (before, shared_before): (Option<Entry>, &[Hold]),
        (after, shared_after): (Option<Entry>, &[Hold]),
    ) -> Option<Violation> {
        let alone = match before {
            Some(Entry { owner: Owner::Token(token), .. }) if before != after => Some(token),
            _ => None,
        };
        let shared = shared_before.iter().filter(|hold| !shared_after.contains(hold)).map(|hold| hold.owner);
        let token = alone.into_iter().chain(shared).find(|token| command.owner() != Some(*token))?;
        let owner = self.drawn.get(&token).map(|drawn| drawn.client);
        Some(Violation::TouchedForeign { node, client, owner })
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{LockKey, Prefix};

    use super::*;

    const A: OwnerToken = OwnerToken::from_bytes([0xa; 20]);
    const B: OwnerToken = OwnerToken::from_bytes([0xb; 20]);

    fn undo(token: OwnerToken) -> Command {
        Command::Undo { key: LockKey::new(&Prefix::default(), "x").unwrap(), token, requeue: None }
    }

    #[test]
    fn a_token_that_another_one_drew_is_not_to_be_sent() {
        let mut ownership = Ownership::default();
        ownership.draw(5, A, 1, 0);
        assert_eq!(ownership.sent(1, 0, &undo(A)), None);
        assert_eq!((ownership.drawn_ns(A), ownership.drawn_by(A)), (Some(5), Some(1)));
        let foreign = Some(Violation::ForeignToken { client: 2, owner: Some(1) });
        assert_eq!(ownership.sent(2, 0, &undo(A)), foreign);
        assert!(ownership.sent(1, 1, &undo(A)).is_some(), "another process in the same place");
        assert!(ownership.sent(1, 0, &undo(B)).is_some(), "nobody drew it");
        ownership.draw(6, A, 2, 0);
        assert_eq!(ownership.sent(2, 0, &undo(A)), None, "it was handed over");
    }

    #[test]
    fn a_key_that_changes_by_the_command_of_another_owner_is_seen() {
        let ownership = Ownership::default();
        let entry = Some(Entry { owner: Owner::Token(A), ends_ms: 7, counts_from_ms: None });
        let longer = Some(Entry { owner: Owner::Token(A), ends_ms: 8, counts_from_ms: None });
        let executed = |token, after| ownership.executed(0, 2, &undo(token), (entry, &[]), (after, &[]));
        assert_eq!(executed(A, None), None);
        assert_eq!(executed(B, entry), None);
        assert_eq!(executed(B, None), Some(Violation::TouchedForeign { node: 0, client: 2, owner: None }));
        assert!(executed(B, longer).is_some());
        let hold = |owner| Hold { owner, ends_ms: 7, counts_from_ms: None };
        for owner in [Owner::Shared, Owner::Owned] {
            let entry = Some(Entry { owner, ends_ms: 7, counts_from_ms: None });
            let left = |token, after: &[Hold]| {
                ownership.executed(0, 2, &undo(token), (entry, &[hold(A), hold(B)]), (entry, after))
            };
            assert_eq!(left(A, &[hold(B)]), None);
            assert!(left(A, &[hold(A)]).is_some(), "another one's hold");
        }
    }
}
